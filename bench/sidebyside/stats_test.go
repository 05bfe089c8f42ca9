//go:build linux

package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestSummarize(t *testing.T) {
	if s := summarize([]float64{3, 1, 2}); s.Median != 2 || s.Min != 1 || s.Max != 3 || s.N != 3 {
		t.Errorf("odd: %+v", s)
	}
	if s := summarize([]float64{4, 1, 2, 3}); s.Median != 2.5 {
		t.Errorf("even: %+v", s)
	}
	if summarize(nil).ok() {
		t.Error("nothing measured is ok")
	}
}

func TestRatioComparesRoundByRound(t *testing.T) {
	r := ratio(summarize([]float64{10, 40, 30}), summarize([]float64{10, 20, 10}))
	if r.Median != 3 || r.Min != 1 || r.Max != 3 {
		t.Errorf("got %+v", r)
	}
	if ratio(summarize([]float64{1}), summary{}).ok() {
		t.Error("a ratio to nothing is ok")
	}
}

func TestTargetsAreJudged(t *testing.T) {
	rec := newRecorder()
	const kase = "default batches"
	for broker, rate := range map[string]float64{kafkaName: 100, kafkaFlushName: 10, godwitName: 140, sinkName: 150} {
		rec.add("produce", kase, broker, mThroughput, rate)
	}
	rec.add("produce", kase, kafkaName, mCPU, 6)
	rec.add("produce", kase, godwitName, mCPU, 1.5)
	rec.add("start", "empty", godwitName, mRSS, 65)
	rec.add("start", "empty", godwitName, mReady, math.NaN())
	got := targets(rec)
	want := []struct {
		met   bool
		limit string
	}{{false, "load tool"}, {true, ""}, {true, ""}, {false, ""}}
	if len(got) != len(want) {
		t.Fatalf("%d targets: %+v", len(got), got)
	}
	for i, w := range want {
		if got[i].Met != w.met || !strings.HasPrefix(got[i].Limit, w.limit) {
			t.Errorf("%s: %s", got[i].What, got[i].verdict())
		}
	}

	// At the disk's limit, less than 1.5 times is what was asked for.
	rec.add("disk", "append", "disk", mThroughput, 150)
	rec.add("produce", kase, godwitName, mDevice, 145)
	if g := targets(rec)[0]; !g.Met || !strings.HasPrefix(g.Limit, "disk") {
		t.Errorf("%s: %s", g.What, g.verdict())
	}
}

func TestReportHasEveryFigure(t *testing.T) {
	rec := newRecorder()
	rec.add("produce", "c", kafkaName, mThroughput, 123.4)
	rec.add("produce", "c", kafkaName, mThroughput, 125.6)
	rec.command("use", "line")
	rec.note("remark")
	r := &report{Date: "2001-02-03", Data: rec, labels: map[string]string{kafkaName: "Kafka"}}
	var md, js strings.Builder
	r.writeMarkdown(&md)
	for _, want := range []string{"124 (123 to 126)", "| Kafka ", "2001-02-03", "- use", "- remark"} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("no %q in\n%s", want, md.String())
		}
	}
	if err := r.writeJSON(&js); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Data struct{ Series []seriesJSON }
	}
	if err := json.Unmarshal([]byte(js.String()), &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Data.Series) != 1 || back.Data.Series[0].Median != 124.5 || back.Data.Series[0].Unit != "MiB/s" {
		t.Errorf("got %+v", back.Data.Series)
	}
}
