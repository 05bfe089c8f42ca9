package report

import (
	"fmt"
	"time"

	"godwit/internal/bench/result"
)

// sample is a run with everything that a report can show: every figure, grade and score; rounds that failed, losses,
// targets that fall behind, and what is not supported.
func sample() *result.Run {
	r := &result.Run{
		Format: result.Format, Started: time.Date(2026, 12, 2, 9, 30, 0, 0, time.UTC), Ended: time.Date(2026, 12, 2, 11, 2, 11, 0, time.UTC),
		Godwit:   "v0.9.0",
		Commands: []string{"bench/peers/kafka.sh start /tmp/kafka", "godwit bench run throughput latency --target 'kafka://127.0.0.1:9092'"},
		Machine: result.Machine{
			CPU: "Example 9000 at 3.1 GHz", Cores: 8, MemoryMB: 16 << 10, System: "Linux 6.12.1", Disk: "ext4 on /dev/nvme0n1p2",
		},
		Notes: []string{"The machine ran a desktop."},
	}
	for _, t := range []struct {
		name, protocol, version, config string
		d                               result.Durability
	}{
		{"godwit", "kafka", "godwit v0.9.0", "default: synced before the acknowledgement",
			result.Durability{Grade: result.GradeSynced, Acked: 100, Covered: 100, Syncs: 104, Files: []string{"/data/godwit/log/wal-00000001.log"}}},
		{"kafka", "kafka", "Apache Kafka 4.4.0", "default: acknowledged from memory",
			result.Durability{Grade: result.GradeUnsynced, Acked: 100, Covered: 3, Syncs: 15, Files: []string{"/data/kafka/__cluster_metadata-0/00000000000000000000.log", "/data/kafka/recovery-point-offset-checkpoint"}}},
		{"rabbitmq", "amqp", "RabbitMQ 4.1.0", "",
			result.Durability{Grade: result.GradePartly, Acked: 1200, Covered: 700, Syncs: 712, Files: []string{"fdatasync()"}}},
		{"nats", "nats", "nats-server 2.15.2", "default", result.Durability{Grade: result.GradeNone}},
		{"jetstream", "jetstream", "", "", result.Durability{Grade: result.GradeUnknown, Why: "its process is not known: add pid= to the target's URL"}},
	} {
		r.Targets = append(r.Targets, result.Target{
			Name: t.name, Protocol: t.protocol, URL: t.protocol + "://127.0.0.1:9092", Version: t.version, Config: t.config, Durability: t.d,
		})
	}
	r.Scenarios = []result.Scenario{
		sampleThroughput(r), sampleLatency(r), sampleScaling(r), sampleDestinations(r), sampleCatchUp(r), sampleBacklog(r), sampleRestart(r),
		sampleRequests(r), sampleCommits(r), sampleTransactions(r), sampleBenefits(r),
	}
	return r
}

// swing is a factor near 1 that differs by round and target, and is the same in every run.
func swing(target, round int) float64 { return 1 + 0.02*float64((target*3+round*2)%5-2) }

// speed is how targets of the sample compare.
func speed(target int) float64 {
	return []float64{1, 0.72, 0.31, 2.6, 0.95, 0.8, 1.1, 0.4, 0.5, 1.7}[target%10]
}

// distribution is a latency whose tail grows with the percentile, in microseconds.
func distribution(p50 float64, count int64) *result.Latency {
	l := &result.Latency{Count: count, Mean: p50 * 1.2}
	for i := range result.Percentiles {
		l.Curve = append(l.Curve, p50*[]float64{0.5, 0.7, 0.85, 1, 1.3, 1.9, 2.6, 5, 7, 14, 19, 33, 60}[i])
	}
	l.Max = l.Curve[len(l.Curve)-1]
	return l
}

// cells makes a cell for each target, of three rounds.
func cells(r *result.Run, x float64, params map[string]string, round func(target, round int) result.Round) (all []result.Cell) {
	for t := range r.Targets {
		c := result.Cell{Target: r.Targets[t].Name, Params: params, X: x}
		for n := range 3 {
			c.Rounds = append(c.Rounds, round(t, n))
		}
		all = append(all, c)
	}
	return all
}

// loaded is a round of a load scenario at so many messages a second; intended is 0 for a closed loop.
func loaded(target, round int, rate, intended float64, size int) result.Round {
	n := int64(rate * 8)
	payload := n * int64(size)
	out := result.Round{
		Figures: map[result.Figure]float64{
			result.ThroughputPerSecond: rate, result.ThroughputMiB: rate * float64(size) / (1 << 20), result.ProducedPerSecond: rate * 1.02,
			result.ConsumedPerSecond: rate, result.BacklogAtEnd: float64(target * 10), result.DrainSeconds: 0.8 / speed(target), result.CreateSeconds: 0.03,
		},
		Producer: distribution(900/speed(target)*swing(target, round), n), EndToEnd: distribution(1400/speed(target)*swing(target, round), n),
		Audit: &result.Audit{Sent: n, Acked: n, Expected: n, Delivered: n},
		Usage: &result.Usage{
			CPUSeconds: 3.5 / speed(target) * swing(target, round), RSSBytes: int64(90+200*target) << 20, DiskWritten: int64(float64(payload) * 1.1), NetReceived: payload, NetSent: payload,
			DeviceFlushes: int64(4000 - 800*target), Syncs: int64(3000 - 700*target), PayloadBytes: payload, Messages: n, Seconds: 8, OthersCores: 0.05, ClientCPUSeconds: 6,
		},
	}
	if intended > 0 {
		out.Figures[result.IntendedPerSecond] = intended
	}
	if target == 4 { // its process is not known
		u := out.Usage
		u.CPUSeconds, u.RSSBytes, u.DiskWritten, u.Syncs, u.DeviceFlushes = 0, 0, 0, -1, -1
	}
	return out
}

func sampleThroughput(r *result.Run) result.Scenario {
	s := result.Scenario{
		Name: "throughput", Title: "Throughput by message size", Kind: "load", Axis: "size", Spec: "title: Throughput by message size\nkind: load\n",
		About: "How much can four producers send to four consumers that share the messages, as fast as the window of unacknowledged messages lets them?",
	}
	for i, size := range []int{100, 1 << 10, 64 << 10} {
		s.Cells = append(s.Cells, cells(r, float64(size), map[string]string{"size": []string{"100", "1KiB", "64KiB"}[i]}, func(t, n int) result.Round {
			return loaded(t, n, 80_000*speed(t)*swing(t, n)/float64(1+2*i), 0, size)
		})...)
	}
	s.Cells[5+1].Rounds[2].Notes = []string{"client: reconnected to 127.0.0.1:9092", "client: reconnected to 127.0.0.1:9092"}
	return s
}

func sampleLatency(r *result.Run) result.Scenario {
	s := result.Scenario{Name: "latency", Title: "Latency at 25, 50 and 75 % of the maximum", Kind: "load", Axis: "rate", Spec: "kind: load\nrate: [25%, 50%, 75%]\n"}
	for i, part := range []float64{25, 50, 75} {
		s.Cells = append(s.Cells, cells(r, part, map[string]string{"rate": fmt.Sprintf("%g%%", part)}, func(t, n int) result.Round {
			want := 400 * part * speed(t)
			out := loaded(t, n, want, want, 1<<10)
			out.EndToEnd = distribution(1400/speed(t)*swing(t, n)*float64(1+i), int64(want*8))
			return out
		})...)
	}
	behind := &s.Cells[2*5+1] // kafka at 75 %
	for i := range behind.Rounds {
		behind.Rounds[i].Figures[result.ThroughputPerSecond] *= 0.8
		behind.Rounds[i].Usage.OthersCores = 0.9
	}
	faulty := &s.Cells[5+2] // rabbitmq at 50 %
	faulty.Rounds[1] = result.Round{Error: "the target closed the connection: 320 CONNECTION_FORCED"}
	loses := s.Cells[3].Rounds[0].Audit // nats at 25 %
	loses.Delivered, loses.Lost, loses.Duplicates, loses.Disordered, loses.Failed, loses.Foreign = loses.Delivered-12, 12, 3, 2, 1, 4
	return s
}

func sampleScaling(r *result.Run) result.Scenario {
	s := result.Scenario{Name: "scaling", Title: "1 to 64 producers by 1 to 64 consumers", Kind: "load", Axis: "producers", Spec: "kind: load\nclients: {together: true}\n"}
	for i, clients := range []int{1, 4, 16, 32, 64} {
		n := fmt.Sprint(clients)
		s.Cells = append(s.Cells, cells(r, float64(clients), map[string]string{"producers": n, "consumers": n}, func(t, round int) result.Round {
			return loaded(t, round, 20_000*speed(t)*swing(t, round)*float64(i+1), 0, 1<<10)
		})...)
	}
	return s
}

func sampleDestinations(r *result.Run) result.Scenario {
	s := result.Scenario{Name: "destinations", Title: "1 to 100,000 destinations", Kind: "load", Axis: "destinations"}
	for i, n := range []int{1, 100, 10_000, 100_000} {
		s.Cells = append(s.Cells, cells(r, float64(n), map[string]string{"destinations": fmt.Sprint(n)}, func(t, round int) result.Round {
			out := loaded(t, round, 2000, 2000, 1<<10)
			out.Figures[result.CreateSeconds] = 0.02 + float64(n)*2e-4/speed(t)
			out.EndToEnd = distribution(1500*float64(i+1)/speed(t), 16_000)
			return out
		})...)
	}
	for i := range s.Cells {
		s.Cells[i].Rounds = s.Cells[i].Rounds[:1]
	}
	all := &s.Cells[3*5+1]
	all.Rounds[0] = result.Round{Figures: map[result.Figure]float64{}, Error: "100000 destinations and 1 subscriptions do not exist after 3m0s (context deadline exceeded)"}
	return s
}

func sampleCatchUp(r *result.Run) result.Scenario {
	s := result.Scenario{Name: "catch-up", Title: "Catch-up read beside a live tail", Kind: "catchup"}
	s.Cells = cells(r, 0, nil, func(t, n int) result.Round {
		out := loaded(t, n, 2000, 0, 1<<10)
		mib := 210 * speed(t) * swing(t, n)
		out.Figures = map[result.Figure]float64{
			result.CatchUpMiB: mib, result.CatchUpPerSecond: mib * 1024, result.TailSlowdown: 1.6 * swing(t, n), result.BacklogMiB: 1024, result.DrainSeconds: 0, result.CreateSeconds: 0.02,
		}
		return out
	})
	unsupported(&s.Cells[3])
	return s
}

func unsupported(c *result.Cell) {
	c.Rounds, c.Unsupported = nil, "the protocol keeps nothing for receivers that are away"
}

func sampleBacklog(r *result.Run) result.Scenario {
	s := result.Scenario{Name: "backlog", Title: "A backlog bigger than memory", Kind: "backlog"}
	s.Cells = cells(r, 0, nil, func(t, n int) result.Round {
		return result.Round{
			Figures: map[result.Figure]float64{
				result.BacklogMiB: 20_480, result.WriteMiB: 310 * speed(t) * swing(t, n), result.ReadMiB: 420 * speed(t) * swing(t, n), result.FirstMessageSeconds: 0.3,
				result.DrainSeconds: 48, result.CreateSeconds: 0.02,
			},
			Audit: &result.Audit{Sent: 20e6, Acked: 20e6, Expected: 20e6, Delivered: 20e6},
		}
	})
	unsupported(&s.Cells[3])
	return s
}

func sampleRestart(r *result.Run) result.Scenario {
	s := result.Scenario{Name: "restart", Title: "Restart with a backlog", Kind: "restart"}
	s.Cells = cells(r, 0, nil, func(t, n int) result.Round {
		return result.Round{
			Figures: map[result.Figure]float64{
				result.BacklogMiB: 1024, result.WriteMiB: 300, result.RestartSeconds: 1.4 / speed(t) * swing(t, n), result.FirstMessageSeconds: 2.1 / speed(t) * swing(t, n),
				result.DrainSeconds: 3, result.CreateSeconds: 0.02,
			},
			Audit: &result.Audit{Sent: 1e6, Acked: 1e6, Expected: 1e6, Delivered: 1e6},
		}
	})
	unsupported(&s.Cells[3])
	s.Cells[4].Rounds, s.Cells[4].Unsupported = nil, "the target's URL names no script that could restart it"
	return s
}

func sampleCommits(r *result.Run) result.Scenario {
	s := result.Scenario{Name: "commits", Title: "Places of consumers made durable", Kind: "commits"}
	s.Cells = cells(r, 0, nil, func(t, n int) result.Round {
		p50 := 1.2 / speed(t) * swing(t, n)
		return result.Round{
			Figures: map[result.Figure]float64{result.CommitsPerSecond: 64e3 / p50, result.CommitP50: p50, result.CommitP99: 9 * p50, result.DrainSeconds: 0.2, result.CreateSeconds: 0.02},
			Audit:   &result.Audit{Sent: 1e4, Acked: 1e4, Expected: 64e4, Delivered: 64e4},
		}
	})
	s.Cells[3].Rounds, s.Cells[3].Unsupported = nil, "the protocol does not tell a consumer when its place is durable"
	return s
}

func sampleTransactions(r *result.Run) result.Scenario {
	s := result.Scenario{Name: "transactions", Title: "Atomic batches of 100 ms", Kind: "load"}
	for i, atomic := range []string{"none", "100ms"} {
		s.Cells = append(s.Cells, cells(r, 0, map[string]string{"atomic": atomic}, func(t, n int) result.Round {
			out := loaded(t, n, 150e3*speed(t)*swing(t, n)*(1-0.3*float64(i)), 0, 1<<10)
			if i > 0 {
				out.Figures[result.AtomicShare] = 0.7
			}
			return out
		})...)
	}
	return s
}

func sampleRequests(r *result.Run) result.Scenario {
	s := result.Scenario{Name: "request-reply", Title: "Request and reply", Kind: "requests"}
	s.Cells = cells(r, 0, nil, func(t, n int) result.Round {
		out := loaded(t, n, 10, 10, 100) // so few that the rare percentiles are nobody's
		out.EndToEnd, out.Producer = distribution(2600/speed(t)*swing(t, n), 80), nil
		return out
	})
	return s
}

func sampleBenefits(r *result.Run) result.Scenario {
	s := result.Scenario{Name: "benefits", Title: "What a message system is used for", Kind: "benefits"}
	for i, title := range []string{"receiver down for a while", "receiver killed in the middle of a message", "reader told that its data was removed"} {
		s.Cells = append(s.Cells, cells(r, 0, map[string]string{"benefit": title}, func(t, n int) result.Round {
			b := &result.Benefit{Score: result.ScoreKept, Seconds: (0.2 + float64(i)) / speed(t) * swing(t, n), Timed: "from its return to having all that it missed", Detail: "5000 messages were sent while it was away; 0 are lost"}
			switch {
			case i == 1 && t == 1:
				b.Score, b.Detail = result.ScorePartly, "5000 messages sent, 0 lost, 100 delivered twice"
			case i == 1 && t == 2 && n > 0: // one round was better
				b.Score, b.Seconds, b.Detail = result.ScoreLost, 90, "5000 messages sent, 1 lost"
			case i == 2 && t < 2:
				b.Said = "OFFSET_OUT_OF_RANGE: the log begins at 5000"
			case i == 2 && t == 2:
				b.Score, b.Detail = result.ScoreLost, "1000 messages were removed; nothing was said"
			}
			return result.Round{Figures: map[result.Figure]float64{}, Benefit: b}
		})...)
	}
	unsupported(&s.Cells[3])
	unsupported(&s.Cells[5+3])
	unsupported(&s.Cells[10+3])
	for i := range s.Cells[5+4].Rounds {
		s.Cells[5+4].Rounds[i] = result.Round{Error: "the receiver to be killed got no message"}
	}
	return s
}
