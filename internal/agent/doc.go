// Package agent knows clients of models: what each needs in a sandbox so that
// it works with a proxy, and so that nothing in a project can turn it away
// from there.
//
// It is pure: it names programs and mount points for the sandbox's tree, and
// makes variables and files of a session's facts. The token stands in the
// client's environment alone, in no file.
package agent
