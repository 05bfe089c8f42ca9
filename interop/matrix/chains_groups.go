package main

// memberSteps look at a group with a live member, which keeps to one of the two protocols of consumer groups.
func memberSteps(protocol string) []step {
	const command = "consumer.group.ConsumerGroupCommand"
	kind, assignor, verbose := "Classic", "range", `-\s+$T:0,1\s+-\s+-`
	if protocol == "consumer" {
		kind, assignor, verbose = "Consumer", "uniform", `\d+\s+$T:0,1\s+\d+\s+$T:0,1`
	}
	return []step{
		{name: "create", class: "TopicCommand", args: server + "--create --topic $T --partitions 2", want: []string{`^Created topic`}},
		{name: "produce", class: "ConsoleProducer", args: server + "--topic $T", input: "a\nb\nc\nd\n"},
		{name: "a " + protocol + " member stays", class: "consumer.ConsoleConsumer", stays: true,
			args: server + "--topic $T --group $G --from-beginning --command-property group.protocol=" + protocol +
				" --command-property auto.commit.interval.ms=500"},
		{name: "describe the member", class: command, args: server + "--describe --group $G --members --verbose", again: true,
			want: []string{`^$G\s+\S{22,}\s+/127\.0\.0\.1\s+console-consumer\s+2\s+` + verbose}},
		{name: "describe the state with a member", class: command, args: server + "--describe --group $G --state", again: true,
			want: []string{`^$G\s+$B\s+\($N\)\s+` + assignor + `\s+Stable\s+1`}},
		{name: "describe the member's offsets", class: command, args: server + "--describe --group $G", again: true,
			want: []string{`^$G\s+$T\s+[01]\s+[1-4]\s+[1-4]\s+0\s+\S{22,}\s+/127\.0\.0\.1\s+console-consumer`}},
		{name: "list stable groups", class: command, args: server + "--list --state Stable", want: []string{`^$G\s+Stable`}},
		{name: "list groups of the type", class: command, args: server + "--list --type " + protocol, want: []string{`^$G\s+` + kind}},
		{name: "reset offsets under a member", class: command,
			args: server + "--group $G --topic $T --reset-offsets --to-earliest --execute",
			want: []string{`Assignments can only be reset if the group '$G' is inactive, but the current state is Stable`}},
		{name: "delete offsets under a member", class: command, args: server + "--group $G --topic $T --delete-offsets",
			want: []string{`^$T\s+0\s+Error: .*GroupSubscribedToTopicException`}},
		{name: "delete under a member", class: command, args: server + "--group $G --delete",
			want: []string{`Group '$G' could not be deleted due to: .*GroupNotEmptyException`}},
		{name: "the member leaves"},
		{name: "describe the state without members", class: command, args: server + "--describe --group $G --state", again: true,
			want: []string{`^$G\s+$B\s+\($N\)\s+\S+\s+Empty\s+0`}},
		{name: "reset offsets by a shift", class: command,
			args: server + "--group $G --topic $T --reset-offsets --shift-by -1000 --execute", want: []string{`^$G\s+$T\s+0\s+0`}},
		{name: "delete", class: command, args: server + "--group $G --delete",
			want: []string{`Deletion of requested consumer groups \('$G'\) was successful`}},
	}
}

// shareSteps work with a share group (KIP-932).
var shareSteps = []step{
	{name: "create", class: "TopicCommand", args: server + "--create --topic $T --partitions 2", want: []string{`^Created topic`}},
	{name: "produce", class: "ConsoleProducer", args: server + "--topic $T", input: "a\nb\nc\nd\n"},
	{name: "configure a group that starts at the beginning", class: "ConfigCommand",
		args: server + "--alter --entity-type groups --entity-name $G --add-config share.auto.offset.reset=earliest",
		want: []string{`^Completed updating config for group $G`}},
	{name: "accept", class: "consumer.ConsoleShareConsumer", args: server + "--topic $T --group $G --max-messages 4 --timeout-ms 30000",
		want: []string{`^a$`, `^b$`, `^c$`, `^d$`, `^Processed a total of 4 messages$`}},
	{name: "list", class: "consumer.group.ShareGroupCommand", args: server + "--list", want: []string{`^$G$`}},
	{name: "list with types", class: "GroupsCommand", args: server + "--list --share", want: []string{`^$G\s+Share\s+share`}},
	{name: "describe the offsets", class: "consumer.group.ShareGroupCommand", args: server + "--describe --group $G", again: true,
		want: []string{`^$G\s+$T\s+[01]\s+\d+\s+0`}},
	{name: "describe the state without members", class: "consumer.group.ShareGroupCommand", again: true,
		args: server + "--describe --group $G --state", want: []string{`^$G\s+$B\s+\($N\)\s+Empty\s+0`}},
	{name: "nothing is left", class: "consumer.ConsoleShareConsumer", args: server + "--topic $T --group $G --timeout-ms 5000",
		want: []string{`^Processed a total of 0 messages$`}},
	{name: "reset offsets", class: "consumer.group.ShareGroupCommand", again: true,
		args: server + "--group $G --topic $T --reset-offsets --to-earliest --execute", want: []string{`^$G\s+$T\s+0\s+0`, `^$G\s+$T\s+1\s+0`}},
	{name: "reject all once more", class: "consumer.ConsoleShareConsumer",
		args: server + "--topic $T --group $G --max-messages 4 --timeout-ms 30000 --reject",
		want: []string{`^a$`, `^b$`, `^c$`, `^d$`, `^Processed a total of 4 messages$`}},
	{name: "a member stays", class: "consumer.ConsoleShareConsumer", args: server + "--topic $T --group $G", stays: true},
	{name: "describe the member", class: "consumer.group.ShareGroupCommand", again: true,
		args: server + "--describe --group $G --members --verbose",
		want: []string{`^$G\s+\S{22}\s+/127\.0\.0\.1\s+console-share-consumer\s+2\s+\d+\s+$T:0,1`}},
	{name: "describe the state with a member", class: "consumer.group.ShareGroupCommand", again: true,
		args: server + "--describe --group $G --state", want: []string{`^$G\s+$B\s+\($N\)\s+Stable\s+1`}},
	{name: "delete under a member", class: "consumer.group.ShareGroupCommand", args: server + "--group $G --delete",
		want: []string{`Group '$G' could not be deleted due to: .*GroupNotEmptyException`}},
	{name: "the member leaves"},
	{name: "delete offsets", class: "consumer.group.ShareGroupCommand", again: true,
		args: server + "--group $G --topic $T --delete-offsets", want: []string{`^$T\s+Successful`}},
	{name: "delete", class: "consumer.group.ShareGroupCommand", args: server + "--group $G --delete",
		want: []string{`Deletion of requested share groups \('$G'\) was successful`}},
	{name: "the deleted group is gone", class: "consumer.group.ShareGroupCommand", args: server + "--list", refuse: []string{`^$G$`}},
}

// transactionSteps look at transactions that have ended.
var transactionSteps = []step{
	{name: "create", class: "TopicCommand", args: server + "--create --topic $T --partitions 2", want: []string{`^Created topic`}},
	{name: "transactional load", class: "ProducerPerformance",
		args: "--topic $T --num-records 2000 --record-size 100 --throughput 2000 --bootstrap-server $B" +
			" --transactional-id $G --transaction-duration-ms 200",
		want: []string{`^2000 records sent, .* records/sec`}, refuse: []string{`Exception`}},
	{name: "list", class: "TransactionsCommand", args: server + "list", again: true, want: []string{`^$G\s+$N\s+\d+\s+CompleteCommit`}},
	{name: "describe", class: "TransactionsCommand", args: server + "describe --transactional-id $G",
		want: []string{`^$N\s+$G\s+\d+\s+\d+\s+CompleteCommit\s+60000\s`}},
	{name: "producers of a partition without open transactions", class: "TransactionsCommand",
		args: server + "describe-producers --topic $T --partition 0", want: []string{`^\d+\s+\d+\s+\d+\s+-1\s+\d{13}\s+None`}},
	{name: "nothing hangs", class: "TransactionsCommand", args: server + "find-hanging --topic $T",
		want: []string{`^Topic\s+Partition\s+ProducerId`}, refuse: []string{`^$T\s`}},
	{name: "read what is committed", class: "consumer.ConsoleConsumer",
		args: server + "--topic $T --from-beginning --max-messages 2000 --timeout-ms 30000 --isolation-level read_committed",
		want: []string{`^Processed a total of 2000 messages$`}},
}
