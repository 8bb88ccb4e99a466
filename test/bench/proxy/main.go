// Command proxy measures the LLM proxy against nginx as a reverse proxy, both
// in front of the same upstream on this machine, in one run. Short measurements
// alternate, and ratios are of those next to each other, so that what else the
// machine does hits both.
//
//	go run ./test/bench/proxy [-rounds 15]
//
// It prints, and with -check exits with 1 where it does not hold:
//
//	added latency   p50 over the upstream alone, small requests one by one: at most 2× nginx's and under 0.5 ms
//	throughput      small requests, 32 at a time: at least 0.6× nginx's
//	first event     p50 of a stream's first event: not to be told from what a second nginx differs by from the first
//	after a thought the same of an upstream that thinks before it speaks, as models do, if for a shorter time
//	idle streams    resident memory that 1,000 of them take: under 100 MB
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		if role, ok := roles()[os.Args[1]]; ok {
			exit(role(os.Args[2:]))
		}
	}
	rounds := flag.Int("rounds", 15, "rounds of each measurement")
	only := flag.String("only", "", "latency, throughput, first or idle; all when empty")
	check := flag.Bool("check", false, "exit with 1 where a promise does not hold")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	held, err := measure(ctx, *rounds, *only)
	if err == nil && *check && !held {
		err = fmt.Errorf("a promise does not hold")
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench proxy:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func measure(ctx context.Context, rounds int, only string) (held bool, err error) {
	dir, err := os.MkdirTemp("", "bench-proxy-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	s, err := newStage(ctx, dir)
	if err != nil {
		return false, err
	}
	defer s.close()
	held = true
	for _, m := range []struct {
		name string
		run  func(*stage, int) (bool, error)
	}{{"latency", latency}, {"throughput", throughput}, {"first", firstEvent}, {"idle", idleStreams}} {
		if only != "" && only != m.name {
			continue
		}
		ok, err := m.run(s, rounds)
		if err != nil {
			return false, err
		}
		held = held && ok
	}
	return held, nil
}

// say prints one result.
func say(ok bool, name, format string, args ...any) bool {
	verdict := "ok  "
	if !ok {
		verdict = "LESS"
	}
	fmt.Printf("%s %-15s %s\n", verdict, name, fmt.Sprintf(format, args...))
	return ok
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// each calls one for every peer, round by round, each time beginning with
// another: what else the machine does, and what the peer before left behind,
// hits all alike. The first round warms up and does not count.
func each(peers []*peer, rounds int, one func(*peer) error) error {
	for round := range rounds + 1 {
		for i := range peers {
			p := peers[(i+round)%len(peers)]
			if err := one(p); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return nil
}

// series is what was measured of each peer, by round.
type series map[string][]time.Duration

// p50 is the median of the rounds.
func (s series) p50(name string) time.Duration { return median(slices.Clone(s[name][1:])) }

// ratio is the median of the rounds' ratios: rounds of a busy machine and of a
// quiet one don't mix.
func (s series) ratio(name string, of func(direct, nginx, other float64) float64) float64 {
	all := s.ratios(name, of)
	return all[len(all)/2]
}

// ratios are those of the rounds, the least first.
func (s series) ratios(name string, of func(direct, nginx, other float64) float64) []float64 {
	var all []float64
	for i := 1; i < len(s[name]); i++ {
		all = append(all, of(float64(s["direct"][i]), float64(s["nginx"][i]), float64(s[name][i])))
	}
	slices.Sort(all)
	return all
}

func added(direct, nginx, other float64) float64 { return (other - direct) / (nginx - direct) }

func whole(_, nginx, other float64) float64 { return other / nginx }

// latencies does n requests a round at each peer, and returns the rounds' p50.
func latencies(peers []*peer, rounds, n int, body string, one func(*client, string) (time.Duration, error)) (series, error) {
	all := series{}
	return all, each(peers, rounds, func(p *peer) error {
		c, err := dial(p)
		if err != nil {
			return err
		}
		defer c.close()
		took := make([]time.Duration, n)
		for i := range took {
			if took[i], err = one(c, body); err != nil {
				return err
			}
		}
		all[p.name] = append(all[p.name], median(took))
		return nil
	})
}

func latency(s *stage, rounds int) (bool, error) {
	small, err := latencies(s.peers, 4*rounds, 50, small, (*client).request)
	if err != nil {
		return false, err
	}
	ours, ratio := small.p50("cordon")-small.p50("direct"), small.ratio("cordon", added)
	ok := ratio <= 2 && ours < 500*time.Microsecond
	say(ok, "added latency", "%.2f× nginx's (p50: upstream %v, nginx +%v, cordon +%v)", ratio, us(small.p50("direct")), us(small.p50("nginx")-small.p50("direct")), us(ours))
	large, err := latencies(s.peers, rounds, 50, typical, (*client).request)
	if err != nil {
		return false, err
	}
	say(true, "of 80 kB", "%.2f× nginx's (p50: upstream %v, nginx +%v, cordon +%v)", large.ratio("cordon", added), us(large.p50("direct")), us(large.p50("nginx")-large.p50("direct")), us(large.p50("cordon")-large.p50("direct")))
	return ok, nil
}

func us(d time.Duration) time.Duration { return d.Round(time.Microsecond) }

// interval is where the median of the rounds' ratios to nginx's lies, with a
// confidence of 95 %: the ratios of the ranks n/2 ± √n (the binomial
// distribution's two standard deviations).
func (s series) interval(name string) (least, most float64) {
	all := s.ratios(name, whole)
	off := int(math.Ceil(math.Sqrt(float64(len(all)))))
	return all[max(len(all)/2-off, 0)], all[min(len(all)/2+off, len(all)-1)]
}

func firstEvent(s *stage, rounds int) (bool, error) {
	at, err := s.first("first event", 4*rounds, 30, streaming)
	if err != nil {
		return false, err
	}
	later, err := s.first("after a thought", rounds, 8, thinking)
	return at && later, err
}

// first measures the first events of n streams a round.
func (s *stage) first(name string, rounds, n int, body string) (bool, error) {
	all, err := latencies(append(slices.Clone(s.peers), s.second), rounds, n, body, (*client).first)
	if err != nil {
		return false, err
	}
	least, most := all.interval("cordon")
	noiseLeast, noiseMost := all.interval(s.second.name)
	ok := least <= noiseMost && noiseLeast <= most // or the two could be told apart
	return say(ok, name, "%.3f× nginx's (%.3f to %.3f), a second nginx %.3f to %.3f× (p50: upstream %v, nginx %v and %v, cordon %v)",
		all.ratio("cordon", whole), least, most, noiseLeast, noiseMost, us(all.p50("direct")), us(all.p50("nginx")), us(all.p50(s.second.name)), us(all.p50("cordon"))), nil
}

func throughput(s *stage, rounds int) (bool, error) {
	per, cpu := series{}, series{} // of a request
	err := each(s.peers, 2*rounds, func(p *peer) error {
		took, used, err := p.flood(32, 200*time.Millisecond)
		per[p.name], cpu[p.name] = append(per[p.name], took), append(cpu[p.name], used)
		return err
	})
	if err != nil {
		return false, err
	}
	rate := func(name string) float64 { return float64(time.Second) / float64(per.p50(name)) }
	ratio := 1 / per.ratio("cordon", whole)
	say(true, "processor time", "%.2f× nginx's (of a request: nginx %v, cordon %v)", cpu.ratio("cordon", whole), us(cpu.p50("nginx")), us(cpu.p50("cordon")))
	return say(ratio >= 0.6, "throughput", "%.2f× nginx's (requests a second: upstream %.0f, nginx %.0f, cordon %.0f)", ratio, rate("direct"), rate("nginx"), rate("cordon")), nil
}

func idleStreams(s *stage, _ int) (bool, error) {
	grown, whole := map[string]int64{}, map[string]int64{}
	for _, p := range s.peers {
		if p.name == "direct" {
			continue
		}
		var err error
		if grown[p.name], whole[p.name], err = p.idle(1000); err != nil {
			return false, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	const mb = 1e6
	ours := float64(whole["cordon"]) / mb // what it grew by is less: it had the memory from before
	return say(ours < 100, "idle streams", "%.1f MB is all of cordon with 1,000, after requests of 80 kB (nginx %.1f MB, more by %.1f)", ours, float64(whole["nginx"])/mb, float64(grown["nginx"])/mb), nil
}
