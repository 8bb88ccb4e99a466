package main

import (
	"context"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
	"github.com/spf13/viper"
	"golang.org/x/sys/unix"
)

// reload reads the settings again at each SIGHUP, and when their file changes.
func (d *daemonProcess) reload(ctx context.Context) {
	again := make(chan os.Signal, 1)
	signal.Notify(again, unix.SIGHUP)
	defer signal.Stop(again)
	changed := make(chan struct{}, 1)
	if file := settingsFile(d.values); present(file) {
		// It reads for itself: what it read last may be half a file.
		watched := viper.New()
		watched.SetConfigFile(file)
		watched.OnConfigChange(func(fsnotify.Event) {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
		watched.WatchConfig()
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

func present(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// again takes over the settings that can be changed while it runs, and returns
// what they are.
func (d *daemonProcess) again(ctx context.Context, before *viper.Viper) *viper.Viper {
	d.reloading()
	defer d.ready(ctx)
	v, err := d.reread()
	if err == nil {
		err = d.setLogLevel(v)
	}
	if err != nil {
		d.log().ErrorContext(ctx, "the settings stay as they were", "error", err)
		return before
	}
	if later := atNextStart(before, v); len(later) > 0 {
		d.log().WarnContext(ctx, "settings changed that count from the next start on", "settings", strings.Join(later, ", "))
	}
	d.loop.Configure(loopSettings(v))
	d.follower.Again()
	return v
}

// atNextStart names the settings that differ and can't be changed while the
// daemon runs.
func atNextStart(before, now *viper.Viper) []string {
	var out []string
	for key, value := range now.AllSettings() {
		if !slices.Contains([]string{"log-level", "interval", "allow-deletes"}, key) && !reflect.DeepEqual(value, before.Get(key)) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}
