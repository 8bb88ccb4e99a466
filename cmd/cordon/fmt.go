package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/hcl/format"
)

func fmtCommand(a *app) *cobra.Command {
	var check, showDiff bool
	cmd := &cobra.Command{
		Use:   "fmt",
		Short: "Put the files into the canonical layout",
		Long: `Put the files into the canonical layout, and print the names of those that
were not in it.

With --check no file is written, and the exit code is 1 when one would be.
With --diff the differences are printed too.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			files, diags := hcl.ReadDir(a.Dir)
			if err := a.ShowErrors(diags); err != nil {
				return err
			}
			failed := false
			for _, file := range files {
				changed, err := a.format(file, !check, showDiff)
				if err != nil {
					return err
				}
				failed = failed || changed && check
			}
			if failed {
				return cli.Exit(1)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing, exit with 1 when a file is not in the canonical layout")
	cmd.Flags().BoolVar(&showDiff, "diff", false, "print the differences")
	return cmd
}

// format reports whether file was not in the canonical layout.
func (a *app) format(file hcl.File, write, showDiff bool) (changed bool, err error) {
	out, diags := format.Source(file.Name, file.Bytes)
	if err := a.ShowErrors(diags); err != nil {
		return false, err
	}
	if bytes.Equal(file.Bytes, out) {
		return false, nil
	}
	fmt.Fprintln(a.Stdout, file.Name)
	if showDiff {
		if _, err := a.Stdout.Write(diff.Diff(file.Name, file.Bytes, file.Name+" (formatted)", out)); err != nil {
			return true, err
		}
	}
	if !write {
		return true, nil
	}
	return true, replace(file.Name, out)
}

// replace writes a file whole or not at all, with the mode it had. A symbolic
// link stays one: what it points to is replaced.
func replace(file string, content []byte) error {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return err
	}
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".cordon-fmt-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err := tmp.Write(content); err != nil {
		_ = tmp.Close()
		return err
	}
	if err := tmp.Chmod(st.Mode().Perm()); err != nil {
		_ = tmp.Close()
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
