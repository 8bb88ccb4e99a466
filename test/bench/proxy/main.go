// Command proxy measures the LLM proxy against nginx as a reverse proxy, both
// in front of the same upstream on this machine, in one run. Measurements
// alternate, so that what else the machine does hits both.
//
//	go run ./test/bench/proxy [-rounds 15]
//
// It prints, and with -check exits with 1 where it does not hold:
//
//	added latency   p50 over the upstream alone, small requests one by one: at most 2× nginx's and under 0.5 ms
//	throughput      small requests, 32 at a time: at least 0.6× nginx's
//	first event     p50 of a stream's first event: within noise of nginx's
//	idle streams    resident memory that 1,000 of them take: under 100 MB
package main

import (
	"context"
	"flag"
	"fmt"
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
	fmt.Printf("%s %-14s %s\n", verdict, name, fmt.Sprintf(format, args...))
	return ok
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// latencies does n requests at each peer, round by round, and returns the p50 of each.
func (s *stage) latencies(rounds, n int, body string, one func(*client, string) (time.Duration, error)) (map[string]time.Duration, error) {
	all := map[string][]time.Duration{}
	for round := range rounds + 1 {
		for _, p := range s.peers {
			c, err := dial(p)
			if err != nil {
				return nil, err
			}
			for range n {
				d, err := one(c, body)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", p.name, err)
				}
				if round > 0 { // the first warms up
					all[p.name] = append(all[p.name], d)
				}
			}
			c.close()
		}
	}
	p50 := map[string]time.Duration{}
	for name, d := range all {
		p50[name] = median(d)
	}
	return p50, nil
}

func latency(s *stage, rounds int) (bool, error) {
	p50, err := s.latencies(rounds, 200, small, (*client).request)
	if err != nil {
		return false, err
	}
	nginx, ours := p50["nginx"]-p50["direct"], p50["cordon"]-p50["direct"]
	ratio := float64(ours) / float64(nginx)
	ok := ratio <= 2 && ours < 500*time.Microsecond
	say(ok, "added latency", "%.2f× nginx's (p50: upstream %v, nginx +%v, cordon +%v)", ratio, us(p50["direct"]), us(nginx), us(ours))
	p50, err = s.latencies(rounds, 50, typical, (*client).request)
	if err != nil {
		return false, err
	}
	nginx, ours = p50["nginx"]-p50["direct"], p50["cordon"]-p50["direct"]
	say(true, "of 80 kB", "%.2f× nginx's (p50: upstream %v, nginx +%v, cordon +%v)", float64(ours)/float64(nginx), us(p50["direct"]), us(nginx), us(ours))
	return ok, nil
}

func us(d time.Duration) time.Duration { return d.Round(time.Microsecond) }

func firstEvent(s *stage, rounds int) (bool, error) {
	p50, err := s.latencies(rounds, 50, streaming, (*client).first)
	if err != nil {
		return false, err
	}
	// What differs by less than a fifth of a millisecond no reader of a model's words can see.
	ok := p50["cordon"]-p50["nginx"] < 200*time.Microsecond
	return say(ok, "first event", "%.2f× nginx's (p50: upstream %v, nginx %v, cordon %v)", float64(p50["cordon"])/float64(p50["nginx"]), us(p50["direct"]), us(p50["nginx"]), us(p50["cordon"])), nil
}

func throughput(s *stage, rounds int) (bool, error) {
	rates := map[string][]time.Duration{} // time for a request, so that the median is of the same kind
	cpu := map[string][]time.Duration{}
	for range max(rounds/3, 3) {
		for _, p := range s.peers {
			per, used, err := p.flood(32, time.Second)
			if err != nil {
				return false, fmt.Errorf("%s: %w", p.name, err)
			}
			rates[p.name], cpu[p.name] = append(rates[p.name], per), append(cpu[p.name], used)
		}
	}
	rate := func(name string) float64 { return float64(time.Second) / float64(median(rates[name])) }
	ratio := rate("cordon") / rate("nginx")
	nginx, ours := median(cpu["nginx"]), median(cpu["cordon"])
	say(true, "processor time", "%.2f× nginx's (of a request: nginx %v, cordon %v)", float64(ours)/float64(nginx), us(nginx), us(ours))
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
