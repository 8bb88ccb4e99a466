package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/broker"
	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/cmd/cordon/internal/eventlog"
	"github.com/aicodesit/cordon/cmd/cordon/internal/view"
	"github.com/aicodesit/cordon/reconciler/loop"
)

// The kinds of requests to the daemon.
const (
	kindPause  = "pause"
	kindResume = "resume"
)

// maxPause is the longest that a daemon may be told to leave things alone:
// what is forgotten must not stay so.
const maxPause = 7 * 24 * time.Hour

// pauseRequest is the body of both; of a resume By alone counts. By is root's
// word: nobody else may ask.
type pauseRequest struct {
	Reason string        `json:"reason,omitempty"`
	For    time.Duration `json:"for,omitempty"` // in nanoseconds
	By     string        `json:"by"`
}

func pauseCommand(a *app) *cobra.Command {
	q := pauseRequest{}
	cmd := &cobra.Command{
		Use:   "pause --reason TEXT [--for 1h]",
		Short: "Keep the daemon from changing anything, for a while",
		Long: `Keep the daemon from changing anything, for a while. It goes on looking, and
shows what it would change. The pause outlasts restarts, and ends by itself.

Sessions can be started meanwhile, and what they need is still brought to what
the files declare.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.NeedRoot("pausing the daemon"); err != nil {
				return err
			}
			q.By = eventlog.By()
			var p loop.Pause
			if err := a.request(cmd.Context(), kindPause, q, &p); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "Paused until %s. cordon resume ends it.\n", p.Until.Local().Format(time.DateTime))
			return nil
		},
	}
	cmd.Flags().StringVar(&q.Reason, "reason", "", "why, for others to read")
	q.For = time.Hour
	cmd.Flags().Var((*spanValue)(&q.For), "for", fmt.Sprintf("how long, 90m, 36h or 2d, at most %s", view.Span(maxPause)))
	return cmd
}

func resumeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "resume",
		Short: "End a pause of the daemon",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.NeedRoot("resuming the daemon"); err != nil {
				return err
			}
			if err := a.request(cmd.Context(), kindResume, pauseRequest{By: eventlog.By()}, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, "Resumed.")
			return nil
		},
	}
}

// control registers what can be asked of the daemon beside sessions.
func (d *daemonProcess) control(s *broker.Server) {
	s.Handle(kindPause, broker.Root, func(_ context.Context, _ broker.Caller, body json.RawMessage) (any, error) {
		var q pauseRequest
		if err := json.Unmarshal(body, &q); err != nil {
			return nil, err
		}
		return d.pause(q)
	})
	s.Handle(kindResume, broker.Root, func(_ context.Context, _ broker.Caller, body json.RawMessage) (any, error) {
		var q pauseRequest
		if err := json.Unmarshal(body, &q); err != nil {
			return nil, err
		}
		return nil, d.loop.Resume(q.By)
	})
}

func (d *daemonProcess) pause(q pauseRequest) (loop.Pause, error) {
	if q.For > maxPause {
		return loop.Pause{}, fmt.Errorf("a pause may last %s at most, not %s", view.Span(maxPause), q.For)
	}
	if q.For <= 0 {
		return loop.Pause{}, errors.New("a pause must last: say --for 1h")
	}
	p := loop.Pause{Reason: q.Reason, By: q.By, Until: time.Now().Add(q.For)}
	return p, d.loop.Pause(p)
}

// spanValue is a flag that takes days too, as --since does.
type spanValue time.Duration

func (v *spanValue) String() string { return time.Duration(*v).String() }
func (v *spanValue) Type() string   { return "duration" }

func (v *spanValue) Set(s string) error {
	if n, ok := days(s); ok {
		*v = spanValue(time.Duration(n) * 24 * time.Hour)
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return errors.New("say 90m, 36h, 2d or the like")
	}
	*v = spanValue(d)
	return nil
}
