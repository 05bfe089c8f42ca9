package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type txnCmd struct {
	List     txnList     `cmd:"" help:"List transactional IDs with the state of their transactions."`
	Describe txnDescribe `cmd:"" help:"Show a transactional ID: its producer, and what its transaction holds."`
	Abort    txnAbort    `cmd:"" help:"Abort the transaction of a transactional ID, and shut its producer out."`
}

type txnList struct {
	brokerFlags
	State []string `placeholder:"STATE" help:"Only those in a state, such as Ongoing; may be given several times."`
	Match string   `placeholder:"REGEX" help:"Only those whose whole transactional ID matches."`
}

// Help is shown below the usage.
func (txnList) Help() string {
	return `While a transaction is Ongoing, readers with isolation level read_committed wait for it.

    godwit txn list --state Ongoing
    godwit txn list --match 'orders-.*' --json`
}

// Run implements the command.
func (c *txnList) Run(e *env) error {
	return c.admin(e.ctx, func(ctx context.Context, adm *kadm.Client) error {
		found, err := adm.ListTransactionsByTxPattern(ctx, nil, c.State, c.Match)
		if err != nil {
			return err
		}
		rows := [][]any{{"TRANSACTIONAL ID", "STATE", "PRODUCER ID"}}
		for _, t := range found.Sorted() {
			if c.JSON {
				if err := writeJSON(e.out, map[string]any{"transactionalId": t.TxnID, "state": t.State, "producerId": t.ProducerID}); err != nil {
					return err
				}
			}
			rows = append(rows, []any{t.TxnID, t.State, t.ProducerID})
		}
		switch {
		case c.JSON:
			return nil
		case len(found) == 0:
			_, err = fmt.Fprintln(e.out, "There are no such transactional IDs.")
			return err
		}
		return table(e.out, rows)
	})
}

type txnDescribe struct {
	brokerFlags
	ID string `arg:"" name:"id" help:"The transactional ID."`
}

// Help is shown below the usage.
func (txnDescribe) Help() string {
	return `A transaction that is open for longer than its time-out is aborted by the broker.

    godwit txn describe orders-1`
}

// txnView is what describe shows.
type txnView struct {
	ID         string     `json:"transactionalId"`
	State      string     `json:"state"`
	ProducerID int64      `json:"producerId"`
	Epoch      int16      `json:"producerEpoch"`
	TimeoutMs  int32      `json:"timeoutMs"`
	Started    *time.Time `json:"started"` // null: no transaction is under way
	Partitions []txnTopic `json:"topics"`  // of the transaction; while it ends, those that have not heard yet
}

type txnTopic struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitions"`
}

// describeTxn asks for one transactional ID.
func describeTxn(ctx context.Context, adm *kadm.Client, id string) (*txnView, error) {
	all, err := adm.DescribeTransactions(ctx, id)
	if err != nil {
		return nil, err
	}
	t, err := all.On(id, nil)
	if err == nil {
		err = t.Err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	v := &txnView{ID: id, State: t.State, ProducerID: t.ProducerID, Epoch: t.ProducerEpoch, TimeoutMs: t.TimeoutMillis, Partitions: []txnTopic{}}
	if t.StartTimestamp >= 0 {
		at := time.UnixMilli(t.StartTimestamp).UTC()
		v.Started = &at
	}
	for _, topic := range slices.Sorted(maps.Keys(t.Topics)) {
		v.Partitions = append(v.Partitions, txnTopic{topic, slices.Sorted(maps.Keys(t.Topics[topic]))})
	}
	return v, nil
}

// Run implements the command.
func (c *txnDescribe) Run(e *env) error {
	return c.admin(e.ctx, func(ctx context.Context, adm *kadm.Client) error {
		v, err := describeTxn(ctx, adm, c.ID)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return writeJSON(e.out, v)
		}
		rows := [][]any{
			{"Transactional ID", v.ID}, {"State", v.State}, {"Producer", fmt.Sprintf("%d, epoch %d", v.ProducerID, v.Epoch)},
			{"Time-out", time.Duration(v.TimeoutMs) * time.Millisecond},
		}
		if v.Started != nil {
			rows = append(rows, []any{"Started", v.Started.Format(time.RFC3339)})
		}
		for _, t := range v.Partitions {
			rows = append(rows, []any{"Topic", t.Topic + ":" + strings.Trim(strings.ReplaceAll(fmt.Sprint(t.Partitions), " ", ","), "[]")})
		}
		return table(e.out, rows)
	})
}

type txnAbort struct {
	brokerFlags
	ID string `arg:"" name:"id" help:"The transactional ID."`
}

// Help is shown below the usage.
func (txnAbort) Help() string {
	return `For a transaction that hangs and that readers wait for. What was written in it is never seen by readers with isolation level
read_committed. A producer that still has the transactional ID is shut out: its next request fails as fenced.

    godwit txn abort orders-1`
}

// Run implements the command: it takes the transactional ID over, as a new producer would, which aborts what is open.
func (c *txnAbort) Run(e *env) error {
	cl, err := c.connect(e.ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(e.ctx, c.Timeout)
	defer cancel()
	before, err := describeTxn(ctx, kadm.NewClient(cl), c.ID)
	if err != nil {
		return err
	}
	if before.Started == nil {
		return fmt.Errorf("%s: no transaction is under way: its state is %s", c.ID, before.State)
	}
	if err := takeOver(ctx, cl, before); err != nil {
		return fmt.Errorf("%s: %w", c.ID, err)
	}
	if c.JSON {
		return writeJSON(e.out, map[string]any{"transactionalId": c.ID, "fenced": true})
	}
	_, err = fmt.Fprintf(e.out, "shut the producer of %s out; what it had open is aborted\n", c.ID)
	return err
}

// takeOver initializes the transactional ID, and comes again for as long as the transaction is still ending.
func takeOver(ctx context.Context, cl *kgo.Client, v *txnView) error {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &v.ID, v.TimeoutMs
	for {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		err = kerr.ErrorForCode(resp.ErrorCode)
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the transaction is still ending: %w", ctx.Err())
		}
	}
}
