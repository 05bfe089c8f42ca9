package cli

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestTransactionIsListedAndAborted(t *testing.T) {
	_, addr := cluster(t, kfake.SeedTopics(2, "orders", "bills"))
	run := func(args string) result {
		t.Helper()
		return do(t, addr, "", args)
	}
	run("txn list").want(t, 0, "There are no such transactional IDs")
	run("txn describe shop").want(t, exitFailed, "godwit txn list")
	run("txn abort shop").want(t, exitFailed, "godwit txn list")

	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.TransactionalID("shop"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	err = cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("1")}, &kgo.Record{Topic: "bills", Value: []byte("2")}).FirstErr()
	if err != nil {
		t.Fatal(err)
	}
	run("txn list").want(t, 0, "TRANSACTIONAL ID", "shop", "Ongoing")
	run("txn list --json --state Ongoing").want(t, 0, `"transactionalId":"shop"`, `"state":"Ongoing"`)
	run("txn list --state CompleteCommit").want(t, 0, "There are no such")
	run("txn describe shop").want(t, 0, "Ongoing", "epoch 0", "Started", "bills:", "orders:")
	run("txn describe shop --json").want(t, 0, `"state":"Ongoing"`, `{"topic":"bills","partitions":[`)
	run("txn abort shop").want(t, 0, "aborted")

	if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err == nil {
		t.Error("the producer committed what was aborted")
	}
	run("txn abort shop").want(t, exitFailed, "no transaction is under way")
}
