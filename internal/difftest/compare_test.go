package difftest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// hit is one difference between the answers to one request.
type hit struct {
	api     string
	at      string // case, and the request in it
	version int16
	field   string
	values  [2]string // of Godwit, of the peer
	peer    string
}

func (h hit) String() string {
	return fmt.Sprintf("%s v%d, %s: %s: Godwit %q, %s %q", h.api, h.version, h.at, h.field, h.values[0], h.peer, h.values[1])
}

// tree is a response made comparable: a value, or parts by name.
type tree struct {
	value string
	parts map[string]*tree // nil for a value
	order []string
	list  bool // of parts; an empty list and none are the same
}

func (t *tree) describe() string {
	if t.parts != nil {
		return present
	}
	return t.value
}

func (t *tree) add(name string, part *tree) {
	if t.parts == nil {
		t.parts = map[string]*tree{}
	}
	unique := name
	for n := 2; t.parts[unique] != nil; n++ {
		unique = fmt.Sprintf("%s#%d", strings.TrimSuffix(name, "]"), n)
		if strings.HasSuffix(name, "]") {
			unique += "]"
		}
	}
	t.parts[unique] = part
	t.order = append(t.order, unique)
}

// present and absent stand for a part that only one broker has.
const present, absent = "present", "absent"

// compare lists where two trees differ. A part that one lacks is one difference, whatever is in it.
func compare(path string, a, b *tree, found func(path, a, b string)) {
	if a.parts == nil && b.parts == nil {
		if a.value != b.value {
			found(path, a.value, b.value)
		}
		return
	}
	if (a.parts == nil || b.parts == nil) && !(a.list && b.list) {
		found(path, a.describe(), b.describe())
		return
	}
	names := slices.Clone(a.order)
	for _, n := range b.order {
		if a.parts[n] == nil {
			names = append(names, n)
		}
	}
	for _, n := range names {
		at := path + n
		if !strings.HasPrefix(n, "[") && path != "" {
			at = path + "." + n
		}
		switch {
		case b.parts[n] == nil:
			found(at, present, absent)
		case a.parts[n] == nil:
			found(at, absent, present)
		default:
			compare(at, a.parts[n], b.parts[n], found)
		}
	}
}

// unsent blanks the fields that a version does not carry and whose default is an ID of kfake's node, and what Kafka sends where there
// is nothing to tell: node 0 as the leader in epoch 0.
func unsent(resp kmsg.Response) {
	untold := func(leader, epoch *int32) {
		if *leader == 0 && *epoch == 0 {
			*leader, *epoch = -1, -1
		}
	}
	switch r := resp.(type) {
	case *kmsg.FindCoordinatorResponse:
		if r.Version >= 4 {
			r.NodeID = -1
		}
	case *kmsg.DescribeTransactionsResponse:
		for i := range r.TransactionStates {
			if s := &r.TransactionStates[i]; s.ErrorCode != 0 && s.ProducerID == 0 {
				s.ProducerID = -1
			}
		}
	case *kmsg.ShareFetchResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				l := &r.Topics[i].Partitions[j].CurrentLeader
				untold(&l.LeaderID, &l.LeaderEpoch)
			}
		}
	case *kmsg.ShareAcknowledgeResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				l := &r.Topics[i].Partitions[j].CurrentLeader
				untold(&l.LeaderID, &l.LeaderEpoch)
			}
		}
	case *kmsg.DescribeShareGroupOffsetsResponse:
		for i := range r.Groups {
			for j := range r.Groups[i].Topics {
				for k := range r.Groups[i].Topics[j].Partitions {
					if p := &r.Groups[i].Topics[j].Partitions[k]; p.StartOffset < 0 && p.LeaderEpoch == 0 {
						p.LeaderEpoch = -1
					}
				}
			}
		}
	}
}

// reader turns the responses of one side into trees.
type reader struct {
	s      *side
	prefix string // of the names that belong to the case
	base   int64  // timestamp of the case's first record, Unix ms
}

// keys are the fields that name an element of a list, in the order in which they are looked for.
var keys = []string{"Topic", "Group", "ResourceName", "Name", "ApiKey", "Dir", "Partition", "MemberID", "Key", "NodeID", "TransactionalID", "ProducerID", "Index", "TopicID", "SubtopologyID"}

// foreign matches the names of other cases.
var foreign = regexp.MustCompile(`^c\d+-`)

func (r *reader) tree(v reflect.Value, field string) *tree {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return &tree{value: "null"}
		}
		return r.tree(v.Elem(), field)
	case reflect.Struct:
		t := &tree{parts: map[string]*tree{}}
		for i := range v.NumField() {
			switch f := v.Type().Field(i); f.Name {
			case "UnknownTags", "Version":
			default:
				t.add(f.Name, r.tree(v.Field(i), f.Name))
			}
		}
		return t
	case reflect.Slice:
		return r.list(v, field)
	}
	return &tree{value: r.value(v, field)}
}

func (r *reader) list(v reflect.Value, field string) *tree {
	switch elem := v.Type().Elem(); {
	case elem.Kind() == reflect.Uint8:
		if field == "RecordBatches" || field == "Records" {
			return &tree{value: r.batches(v.Bytes())}
		}
		return &tree{value: fmt.Sprintf("%x", v.Bytes())}
	case elem.Kind() != reflect.Struct:
		var values []string
		for i := range v.Len() {
			values = append(values, r.value(v.Index(i), field))
		}
		slices.Sort(values)
		return &tree{value: strings.Join(values, " ")}
	}
	t := &tree{parts: map[string]*tree{}, list: true}
	for i := range v.Len() {
		key := r.key(v.Index(i), i)
		if foreign.MatchString(key) && !strings.HasPrefix(key, r.prefix) {
			continue
		}
		t.add("["+strings.TrimPrefix(key, r.prefix)+"]", r.tree(v.Index(i), field))
	}
	slices.Sort(t.order)
	return t
}

// key names an element of a list.
func (r *reader) key(v reflect.Value, i int) string {
	for _, name := range keys {
		f := v.FieldByName(name)
		if !f.IsValid() {
			continue
		}
		if f.Kind() == reflect.Pointer && f.IsNil() || f.Kind() == reflect.String && f.Len() == 0 {
			if id := v.FieldByName("TopicID"); id.IsValid() {
				return r.value(id, "TopicID")
			}
			continue
		}
		if f.Kind() == reflect.Pointer {
			f = f.Elem()
		}
		if name == "ApiKey" {
			return kmsg.NameForKey(int16(f.Int()))
		}
		if kind := v.FieldByName("Type"); kind.IsValid() {
			return fmt.Sprintf("%s of type %v", r.value(f, name), kind)
		}
		return r.value(f, name)
	}
	return fmt.Sprint(i)
}

// own gives a value that a broker chose its number in the order of first sight.
func own(seen map[string]string, kind, v string) string {
	if seen[v] == "" {
		seen[v] = fmt.Sprintf("%s#%d", kind, len(seen)+1)
	}
	return seen[v]
}

// value is a value, made equal where it has to differ.
func (r *reader) value(v reflect.Value, field string) string {
	switch v.Kind() {
	case reflect.Array: // a topic ID
		id := [16]byte(v.Interface().([16]byte))
		switch name, known := r.s.topics[id]; {
		case known:
			return "id(" + strings.TrimPrefix(name, r.prefix) + ")"
		case id == [16]byte{}:
			return "none"
		}
		return "new ID"
	case reflect.String:
		s := v.String()
		switch {
		case s == r.s.cluster:
			return "cluster"
		case (field == "MemberID" || field == "LeaderID") && s != "" && !strings.HasPrefix(s, "nobody"):
			return own(r.s.members, "member", s)
		}
		if (field == "ResourceName" || field == "Name") && s == fmt.Sprint(r.s.node) {
			return "node"
		}
		if host, _, err := net.SplitHostPort(s); err == nil && field == "ClientHost" {
			s = host + ":port"
		}
		return strings.ReplaceAll(s, r.prefix, "")
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.number(v.Int(), field)
	}
	return fmt.Sprint(v.Interface())
}

func (r *reader) number(n int64, field string) string {
	switch field {
	case "ErrorCode", "AcknowledgeErrorCode":
		if e := kerr.TypedErrorForCode(int16(n)); e != nil {
			return e.Message
		}
		return "NONE"
	case "NodeID", "Leader", "LeaderID", "ControllerID", "Replicas", "ISR", "ReplicaNodes", "IsrNodes":
		if n == int64(r.s.node) {
			return "node"
		}
	case "LeaderEpoch":
		if n >= 0 && r.s.epochs[int32(n)] {
			return "current"
		}
	case "Port":
		return "port"
	case "ProducerID":
		if n >= 0 {
			return own(r.s.producers, "producer", fmt.Sprint(n))
		}
	case "SessionID":
		if n > 0 {
			return own(r.s.sessions, "session", fmt.Sprint(n))
		}
	case "LogAppendTime", "Timestamp", "LastTimestamp", "StartTimestamp":
		if d := n - r.base; d >= 0 && d < 1000 {
			return fmt.Sprintf("base+%d", d)
		} else if d > 0 && d < time.Hour.Milliseconds() {
			return "now"
		}
	case "TotalBytes", "UsableBytes":
		if n >= 0 {
			return "some"
		}
	}
	return fmt.Sprint(n)
}

// batches describes record sets: what a client sent is wanted back byte by byte, from its checksum on, but for its producer's ID.
func (r *reader) batches(b []byte) string {
	var out []string
	for len(b) > 0 {
		if len(b) < 61 || int(binary.BigEndian.Uint32(b[8:]))+12 > len(b) {
			return strings.Join(append(out, fmt.Sprintf("%d bytes more", len(b))), ", ")
		}
		size := int(binary.BigEndian.Uint32(b[8:])) + 12
		out = append(out, r.batch(slices.Clone(b[:size])))
		b = b[size:]
	}
	return strings.Join(out, ", ")
}

func (r *reader) batch(b []byte) string {
	producer := int64(binary.BigEndian.Uint64(b[43:]))
	text := fmt.Sprintf("offset %d epoch %s bytes %d", binary.BigEndian.Uint64(b), r.number(int64(int32(binary.BigEndian.Uint32(b[12:]))), "LeaderEpoch"), len(b))
	if producer >= 0 && r.s.producers[fmt.Sprint(producer)] != "" {
		text += fmt.Sprintf(" of %s in epoch %d", r.number(producer, "ProducerID"), binary.BigEndian.Uint16(b[51:]))
		clear(b[17:21]) // checksum
		clear(b[43:51])
	}
	const control = 0x20
	if attrs := binary.BigEndian.Uint16(b[21:]); attrs&control != 0 {
		// One record: length, attributes, two deltas, the key's length, all in a byte each; then the key: version and type.
		return fmt.Sprintf("%s marker %d", text, binary.BigEndian.Uint16(b[61+5+2:]))
	}
	return fmt.Sprintf("%s crc %08x", text, crc32.ChecksumIEEE(b[16:]))
}

// glob matches a pattern in which * stands for anything.
func glob(pattern, s string) bool {
	first, rest, more := strings.Cut(pattern, "*")
	if !strings.HasPrefix(s, first) {
		return false
	}
	if s = s[len(first):]; !more {
		return s == ""
	}
	for i := range len(s) + 1 {
		if glob(rest, s[i:]) {
			return true
		}
	}
	return false
}
