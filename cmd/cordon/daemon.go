package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/cmd/cordon/internal/broker"
	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/cmd/cordon/internal/daemon"
	"github.com/aicodesit/cordon/internal/source"
	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

func daemonCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "daemon",
		Short: "Keep the host and the databases at what the files say, for ever",
		Long: `Keep the host and the databases at what the files say, for ever.

It follows the directory given by -C, or a git repository given by --git. What
differs is repaired: at once when the kernel or PostgreSQL tells of it, else at
the interval. Each database, and the host, converge by themselves.

Files with errors, revisions that are not trusted, and ones that remove more
than the deletion budget change nothing: what was enforced before stays so and
is still repaired. It outlasts a restart, also when the source is away.

SIGTERM ends it, and leaves sessions running. SIGHUP makes it look at the
source, and read its settings again, as it does when their file changes;
log-level, interval, allow-deletes and whom to tell (notify and commit-status)
then count at once, others at the next start.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.NeedRoot("the daemon"); err != nil {
				return err
			}
			// SIGHUP ends other commands.
			ctx, stop := signal.NotifyContext(context.WithoutCancel(cmd.Context()), os.Interrupt, unix.SIGTERM)
			defer stop()
			d := &daemonProcess{app: a}
			return d.run(ctx)
		},
	}
	daemonFlags(cmd.Flags())
	return cmd
}

// daemonFlags are those of the daemon, and of the unit that starts it.
func daemonFlags(f *pflag.FlagSet) {
	sourceFlags(f)
	notifyFlags(f)
	f.Duration("interval", 30*time.Second, "how often all is looked at when nothing tells of a change")
	f.Bool("allow-deletes", false, "allow revisions that remove more than the deletion budget")
	f.String("listen", "127.0.0.1:9464", `address of metrics, health and the page; "" for none`)
	f.StringSlice("listen-name", nil, "name that it may be asked by there, beside addresses, localhost and the host's own")
	f.String("hook-secret", "", "secret of the webhook POST /hook: file:PATH, env:NAME or systemd:NAME (default no webhook)")
}

// daemonProcess is a daemon.
type daemonProcess struct {
	*app
	loop     *loop.Loop
	source   source.Source
	shown    loop.Source
	follower *daemon.Follower
	proxies  proxies
	notifier *recipients
	watches  daemon.Services
	seen     *observer
	broker   *broker.Server
}

// run keeps the host until ctx ends.
func (d *daemonProcess) run(ctx context.Context) error {
	release, err := daemon.Lock(d.Rundir())
	if err != nil {
		return err
	}
	defer release()
	if err := d.prepare(); err != nil {
		return err
	}
	serve, err := d.listen(ctx)
	if err != nil {
		return err
	}
	socket, err := broker.Listen(d.Rundir())
	if err != nil {
		return err
	}
	d.broker = d.requests(ctx)
	d.control(d.broker)
	fmt.Fprintf(d.Stderr, "Following %s. cordon status tells how this host is, cordon events what happened.\n", d.shown.Origin)
	d.loop.Emit(loop.Event{Kind: loop.DaemonStarted, Text: "cordon " + d.Version})
	defer d.loop.Emit(loop.Event{Kind: loop.DaemonStopped})
	ctx, end := context.WithCancel(ctx)
	defer end()
	var failed [2]error
	var all sync.WaitGroup
	all.Go(func() { _ = d.loop.Run(ctx) }) // ends with ctx alone
	all.Go(func() { d.proxies.services.Run(ctx) })
	all.Go(func() { d.watches.Run(ctx) })
	all.Go(func() { d.watchdog(ctx) })
	context.AfterFunc(ctx, func() { d.systemd(systemd.SdNotifyStopping) })
	all.Go(func() { _ = d.follower.Run(ctx, func() { d.ready(ctx) }) })
	all.Go(func() { d.reload(ctx) })
	all.Go(func() { d.notifier.run(ctx) })
	all.Go(func() { failed[0] = d.broker.Serve(ctx, socket); end() })
	if serve != nil {
		all.Go(func() { failed[1] = serve(ctx); end() })
	}
	all.Wait()
	return errors.Join(failed[:]...)
}

// prepare makes what run runs. Nothing is changed yet.
func (d *daemonProcess) prepare() error {
	var err error
	if d.source, d.shown, err = d.app.source(); err != nil {
		return err
	}
	path := filepath.Join(d.StateDir, "daemon", "memory")
	log := d.Log()
	told, err := d.app.notifier(d.values, d.state)
	if err != nil {
		return err
	}
	d.notifier = newRecipients(told)
	d.seen = newObserver(log, d.Events(), d.state)
	memory, err := daemon.LoadMemory(path)
	if err != nil { // better to enforce what should be paused than nothing for ever
		log.Error("a pause, if there was one, is over", "error", err)
	}
	d.loop = loop.New(loop.Options{
		Settings: loopSettings(d.values), Memory: memory, Log: log,
		Remember: func(m loop.Memory) error { return daemon.SaveMemory(path, m) },
		Emit:     d.tell, Passed: d.seen.metrics.Passed, Arrived: d.notifier.look,
	})
	d.proxies.app = d.app
	d.proxies.services = daemon.Services{Log: log, Emit: d.loop.Emit}
	d.watches = daemon.Services{Log: log, Emit: d.watchEvent}
	d.follower = &daemon.Follower{
		Source: d.source, Loop: d.loop, Log: log, Load: d.loadFiles, Target: d.target,
		Used: func(set specs.Set) {
			d.proxies.use(set)
			d.watches.Use(d.watchers(set))
			d.broker.Review()
		},
	}
	return nil
}

func loopSettings(v *viper.Viper) loop.Settings {
	return loop.Settings{Interval: v.GetDuration("interval"), AllowDeletes: v.GetBool("allow-deletes")}
}

// ready is called when what was enforced before is enforced again.
func (d *daemonProcess) ready(context.Context) {
	d.systemd(systemd.SdNotifyReady, "STATUS="+d.status())
}
