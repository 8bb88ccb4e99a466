package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
	"github.com/spf13/viper"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/cmd/cordon/internal/notify"
)

// reload reads the settings again at each SIGHUP, and when their file changes.
func (d *daemonProcess) reload(ctx context.Context) {
	again := make(chan os.Signal, 1)
	signal.Notify(again, unix.SIGHUP)
	defer signal.Stop(again)
	changed := make(chan struct{}, 1)
	watch, err := watchFile(cli.File(d.values), func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	switch {
	case err == nil:
		go watch(ctx)
	case !missing(err):
		d.Log().WarnContext(ctx, "settings are read again at SIGHUP only", "error", err)
	}
	now := d.values
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-changed:
		}
		now = d.again(ctx, now)
	}
}

// watchFile returns what calls changed when another file is at the path, or the
// same with another content, until its context ends. One that is gone may come
// back.
func watchFile(path string, changed func()) (watch func(context.Context), err error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := w.Add(filepath.Dir(path)); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	was, _ := os.Stat(path) // nil is no file
	return func(ctx context.Context) {
		defer w.Close()
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.Events: // of whatever is in the directory: the path may lead through a link
			case <-w.Errors: // events were lost
			}
			is, err := os.Stat(path)
			if err == nil && (was == nil || !os.SameFile(was, is) || !was.ModTime().Equal(is.ModTime()) || was.Size() != is.Size()) {
				was = is
				changed()
			}
		}
	}, nil
}

// again takes over the settings that can be changed while it runs, and returns
// what they are. The source is asked whether they can be read or not.
func (d *daemonProcess) again(ctx context.Context, before *viper.Viper) *viper.Viper {
	d.reloading()
	defer d.ready(ctx)
	defer d.follower.Again()
	v, err := d.reread()
	var told *notify.Notifier
	others := err == nil && differ(before, v, notifySettings()...)
	if others {
		told, err = d.app.notifier(v, d.state)
	}
	if err == nil {
		err = d.SetLogLevel(v)
	}
	if err != nil {
		d.Log().ErrorContext(ctx, "the settings stay as they were", "error", err)
		return before
	}
	if later := atNextStart(before, v); len(later) > 0 {
		d.Log().WarnContext(ctx, "settings changed that count from the next start on", "settings", strings.Join(later, ", "))
	}
	if others {
		d.notifier.use(told)
	}
	d.loop.Configure(loopSettings(v))
	return v
}

// atNextStart names the settings that differ and can't be changed while the
// daemon runs.
func atNextStart(before, now *viper.Viper) []string {
	var out []string
	atOnce := append(notifySettings(), "log-level", "interval", "allow-deletes")
	for key := range now.AllSettings() {
		if !slices.Contains(atOnce, key) && differ(before, now, key) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// differ tells whether one of the settings does.
func differ(before, now *viper.Viper, keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return !reflect.DeepEqual(now.Get(key), before.Get(key)) })
}
