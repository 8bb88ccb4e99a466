package git

import (
	"context"
	"fmt"
	"strings"

	"github.com/aicodesit/cordon/internal/run"
	"github.com/aicodesit/cordon/reconciler"
)

// Examine implements reconciler.Examiner. Repositories are kept without git;
// fetching and pushing on the host needs 2.31, the first that takes all of its
// configuration from where it is told to.
func (e *Enforcer) Examine(ctx context.Context) []reconciler.Finding {
	f := reconciler.Finding{Subject: "git", Status: reconciler.OK}
	out, err := run.Output(ctx, "git", "--version")
	var major, minor int
	_, scan := fmt.Sscanf(string(out), "git version %d.%d", &major, &minor)
	switch {
	case err != nil:
		f.Status, f.Text, f.Remedy = reconciler.Warn, "not found: cordon git has nothing to run", "install git"
	case scan != nil || major < 2 || major == 2 && minor < 31:
		f.Status, f.Text, f.Remedy = reconciler.Warn, strings.TrimSpace(string(out))+": older than 2.31", "install a newer git"
	default:
		f.Text = strings.TrimSpace(string(out))
	}
	return []reconciler.Finding{f}
}
