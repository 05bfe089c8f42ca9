package kafka

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"godwit/internal/base"
)

// kafkaCodes are the Kafka errors that one code of the broker becomes, by the kind of request it answers.
type kafkaCodes struct {
	data  *kerr.Error // about a partition or topic
	group *kerr.Error // about a group; data if nil
	admin *kerr.Error // about administration; data if nil
}

// kafkaErrors is the one table from the broker's codes to Kafka's.
var kafkaErrors = [...]kafkaCodes{
	base.CodeUnknown:              {data: kerr.UnknownServerError},
	base.CodeUnknownStream:        {data: kerr.UnknownTopicOrPartition},
	base.CodeUnknownPartition:     {data: kerr.UnknownTopicOrPartition},
	base.CodeStreamExists:         {data: kerr.TopicAlreadyExists},
	base.CodeInvalidName:          {data: kerr.InvalidTopicException},
	base.CodeInvalidPartitions:    {data: kerr.InvalidPartitions},
	base.CodeInvalidReplication:   {data: kerr.InvalidReplicationFactor},
	base.CodeInvalidConfig:        {data: kerr.InvalidConfig},
	base.CodeInvalidRequest:       {data: kerr.InvalidRequest},
	base.CodeOffsetOutOfRange:     {data: kerr.OffsetOutOfRange},
	base.CodeCorruptMessage:       {data: kerr.CorruptMessage},
	base.CodeInvalidRecord:        {data: kerr.InvalidRecord},
	base.CodeInvalidTimestamp:     {data: kerr.InvalidTimestamp},
	base.CodeMessageTooLarge:      {data: kerr.MessageTooLarge},
	base.CodeUnsupportedFormat:    {data: kerr.InvalidRecord}, // as Kafka 4 answers magic 0 and 1
	base.CodeUnsupportedCodec:     {data: kerr.UnsupportedCompressionType},
	base.CodeOutOfOrderSequence:   {data: kerr.OutOfOrderSequenceNumber},
	base.CodeDuplicateSequence:    {data: kerr.DuplicateSequenceNumber},
	base.CodeFencedProducer:       {data: kerr.InvalidProducerEpoch},
	base.CodeUnknownProducer:      {data: kerr.UnknownProducerID},
	base.CodeStorage:              {data: kerr.KafkaStorageError, group: kerr.CoordinatorNotAvailable},
	base.CodeDiskFull:             {data: kerr.KafkaStorageError, group: kerr.CoordinatorNotAvailable},
	base.CodeCorruption:           {data: kerr.CorruptMessage, group: kerr.UnknownServerError, admin: kerr.UnknownServerError},
	base.CodeNotReady:             {data: kerr.NotLeaderForPartition, group: kerr.CoordinatorLoadInProgress, admin: kerr.NotController},
	base.CodeShutdown:             {data: kerr.NotLeaderForPartition, group: kerr.NotCoordinator, admin: kerr.NotController},
	base.CodeTimeout:              {data: kerr.RequestTimedOut},
	base.CodeFencedEpoch:          {data: kerr.FencedLeaderEpoch},
	base.CodeUnknownEpoch:         {data: kerr.UnknownLeaderEpoch},
	base.CodeUnknownMember:        {data: kerr.UnknownMemberID},
	base.CodeIllegalGeneration:    {data: kerr.IllegalGeneration},
	base.CodeRebalanceInProgress:  {data: kerr.RebalanceInProgress},
	base.CodeInconsistentProtocol: {data: kerr.InconsistentGroupProtocol},
	base.CodeMemberIDRequired:     {data: kerr.MemberIDRequired},
	base.CodeFencedInstance:       {data: kerr.FencedInstanceID},
	base.CodeInvalidGroup:         {data: kerr.InvalidGroupID},
	base.CodeInvalidSession:       {data: kerr.InvalidSessionTimeout},
	base.CodeGroupFull:            {data: kerr.GroupMaxSizeReached},
	base.CodeUnknownGroup:         {data: kerr.GroupIDNotFound},
	base.CodeNonEmptyGroup:        {data: kerr.NonEmptyGroup},
	base.CodeGroupSubscribed:      {data: kerr.GroupSubscribedToTopic},
	base.CodeMetadataTooLarge:     {data: kerr.OffsetMetadataTooLarge},
	base.CodePolicyViolation:      {data: kerr.PolicyViolation},
	base.CodeInvalidAssignment:    {data: kerr.InvalidReplicaAssignment},
	base.CodeConcurrentTxn:        {data: kerr.ConcurrentTransactions},
	base.CodeInvalidTxnState:      {data: kerr.InvalidTxnState},
	base.CodeUnknownMapping:       {data: kerr.InvalidProducerIDMapping},
	base.CodeInvalidTxnTimeout:    {data: kerr.InvalidTransactionTimeout},
	base.CodeFencedCoordinator:    {data: kerr.TransactionCoordinatorFenced},
	base.CodeProducerFenced:       {data: kerr.ProducerFenced},
	base.CodeUnknownTxn:           {data: kerr.TransactionalIDNotFound},
	base.CodeTxnAbortable:         {data: kerr.TransactionAbortable},
	base.CodeUnverifiedTxn:        {data: kerr.NotEnoughReplicas}, // retried by every client
	base.CodeUnstableOffset:       {data: kerr.UnstableOffsetCommit},
	base.CodeFencedMember:         {data: kerr.FencedMemberEpoch},
	base.CodeUnreleasedInstance:   {data: kerr.UnreleasedInstanceID},
	base.CodeUnsupportedAssignor:  {data: kerr.UnsupportedAssignor},
	base.CodeStaleMember:          {data: kerr.StaleMemberEpoch},
	base.CodeInvalidRegex:         {data: kerr.InvalidRegularExpression},
	base.CodeInvalidRecordState:   {data: kerr.InvalidRecordState},
	base.CodeShareSessionNotFound: {data: kerr.ShareSessionNotFound},
	base.CodeInvalidShareSession:  {data: kerr.InvalidShareSessionEpoch},
	base.CodeShareSessionLimit:    {data: kerr.ShareSessionLimitReached},
	base.CodeUnsupportedVersion:   {data: kerr.UnsupportedVersion},
	base.CodeInvalidTopology:      {data: kerr.StreamsInvalidTopology},
	base.CodeTwoPhaseCommit:       {data: kerr.TransactionalIDAuthorizationFailed},
}

// codesOf finds the row of an error; a code without a row is unexpected.
func codesOf(err error) *kafkaCodes {
	c := int(base.CodeOf(err))
	if c >= len(kafkaErrors) || kafkaErrors[c].data == nil {
		c = int(base.CodeUnknown)
	}
	return &kafkaErrors[c]
}

// fail is the Kafka error code for an error about a partition or topic; 0 for nil. Like all of its kin it counts
// the error for the request's API, so a handler calls it once for each code that it puts into a response.
func (rc *request) fail(err error) int16 {
	if err == nil {
		return 0
	}
	return rc.reject(codesOf(err).data)
}

// failGroup is the Kafka error code for an error about a group; 0 for nil.
func (rc *request) failGroup(err error) int16 {
	if err == nil {
		return 0
	}
	c := codesOf(err)
	if c.group != nil {
		return rc.reject(c.group)
	}
	return rc.reject(c.data)
}

// failAdmin is the Kafka error code for an error of an administrative request; 0 for nil.
func (rc *request) failAdmin(err error) int16 {
	if err == nil {
		return 0
	}
	c := codesOf(err)
	if c.admin != nil {
		return rc.reject(c.admin)
	}
	return rc.reject(c.data)
}

// reject is the code of a Kafka error that has no counterpart in the broker.
func (rc *request) reject(e *kerr.Error) int16 {
	rc.server.metrics.failed(rc.api, e)
	return e.Code
}

// message is the text of an error for a response: nil for no error, and for one that says nothing to a client.
func message(err error) *string {
	var e *base.Error
	if err == nil || !errors.As(err, &e) || e.Msg == "" {
		return nil
	}
	return &e.Msg
}

// malformed is a request that cannot be answered; the connection ends.
type malformed struct{ msg string }

func (m *malformed) Error() string { return m.msg }

func malformedf(format string, args ...any) error { return &malformed{fmt.Sprintf(format, args...)} }
