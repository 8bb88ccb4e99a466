package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/aicodesit/cordon/internal/secret"
	"github.com/aicodesit/cordon/internal/source"
	"github.com/aicodesit/cordon/internal/source/folder"
	"github.com/aicodesit/cordon/internal/source/git"
	"github.com/aicodesit/cordon/internal/source/signature"
	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

// sourceFlags are those of git; without --git the folder is followed.
func sourceFlags(f *pflag.FlagSet) {
	f.String("git", "", "follow this repository instead of a folder: https://, ssh://, user@host:path or file:///")
	f.String("ref", "", "branch, tag or whole commit hash to follow (default the repository's own)")
	f.String("path", "", "directory of the *.hcl files within the repository")
	f.Duration("poll", 0, "how often the repository is asked (default 1m)")
	f.String("verify", "", `what must be signed: "head", the commit, or "tag", the tag that --ref names`)
	f.String("allowed-signers", "", "file of the SSH keys that may sign, as of ssh-keygen(1)")
	f.String("keyring", "", "file of the OpenPGP keys that may sign, armored")
	f.Bool("allow-rollback", false, "accept revisions that are older than what was enforced")
	f.String("git-user", "", "user at the git server")
	f.String("git-credential", "", "password or token at the git server, or the key's passphrase: file:PATH, env:NAME or systemd:NAME")
	f.String("git-key", "", "private SSH key: file:PATH, env:NAME or systemd:NAME")
	f.String("known-hosts", "", "file to know an ssh server by")
	f.String("git-ca", "", "file of certificate authorities instead of the system's")
}

// source is what the settings say to follow, and how it is shown.
func (a *app) source() (source.Source, loop.Source, error) {
	o, err := a.gitOptions(a.values)
	if err != nil {
		return nil, loop.Source{}, err
	}
	if o == nil {
		dir, err := filepath.Abs(a.Dir)
		if err != nil {
			return nil, loop.Source{}, err
		}
		s, err := folder.New(folder.Options{Dir: dir, StateDir: a.daemonState("folder"), Log: a.Log()})
		return s, loop.Source{Origin: dir}, err
	}
	s, err := git.New(*o)
	return s, loop.Source{Origin: o.URL, Ref: o.Ref}, err
}

// gitOptions are nil when a folder is to be followed.
func (a *app) gitOptions(v *viper.Viper) (*git.Options, error) {
	url := v.GetString("git")
	if url == "" {
		for _, name := range []string{"ref", "path", "verify", "allowed-signers", "keyring"} {
			if v.GetString(name) != "" {
				return nil, fmt.Errorf("--%s is about a repository: say which with --git URL", name)
			}
		}
		return nil, nil
	}
	o := &git.Options{
		URL: url, Ref: v.GetString("ref"), Path: v.GetString("path"), StateDir: a.daemonState("git"), Interval: v.GetDuration("poll"),
		KnownHosts: v.GetString("known-hosts"), CA: v.GetString("git-ca"),
		Verify: git.Verify(v.GetString("verify")), AllowRollback: v.GetBool("allow-rollback"), Log: a.Log(),
	}
	var err error
	if o.Credentials, err = gitCredentials(v); err != nil {
		return nil, err
	}
	if files := [2]string{v.GetString("allowed-signers"), v.GetString("keyring")}; files != [2]string{} {
		o.Keys = func() (*signature.Keys, error) { return signers(files[0], files[1]) }
	}
	return o, o.Check()
}

// daemonState is where a part of the daemon keeps what must outlast it.
func (a *app) daemonState(part string) string { return filepath.Join(a.StateDir, "daemon", part) }

// signers reads who may sign, from those of the files that are named.
func signers(allowed, keyring string) (*signature.Keys, error) {
	var texts [2][]byte
	for i, path := range []string{allowed, keyring} {
		if path == "" {
			continue
		}
		var err error
		if texts[i], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return signature.Parse(texts[0], texts[1])
}

// gitCredentials are read at each connection; nil: none are set.
func gitCredentials(v *viper.Viper) (func(context.Context) (git.Credentials, error), error) {
	password, err := placed(v, "git-credential")
	if err != nil {
		return nil, err
	}
	key, err := placed(v, "git-key")
	if err != nil {
		return nil, err
	}
	user := v.GetString("git-user")
	if password == nil && key == nil && user == "" {
		return nil, nil
	}
	return func(context.Context) (git.Credentials, error) {
		c := git.Credentials{User: user}
		if password != nil {
			text, err := password()
			if err != nil {
				return c, err
			}
			c.Password = text
		}
		if key != nil {
			text, err := key()
			if err != nil {
				return c, err
			}
			c.Key = []byte(text + "\n") // a key's last line must end
		}
		return c, nil
	}, nil
}

// placed returns how to read the secret whose place a setting names; nil: it
// names none.
func placed(v *viper.Viper, setting string) (func() (string, error), error) {
	return placedAt(setting, v.GetString(setting))
}

// placedAt is placed for a place that is part of a setting.
func placedAt(setting, place string) (func() (string, error), error) {
	if place == "" {
		return nil, nil
	}
	kind, where, _ := strings.Cut(place, ":")
	s := specs.Secret{Name: setting}
	switch {
	case where == "":
		kind = ""
	case kind == "file":
		s.File = where
	case kind == "env":
		s.Env = where
	case kind == "systemd":
		s.Systemd = where
	}
	if s.File+s.Env+s.Systemd == "" {
		return nil, fmt.Errorf("--%s: must be file:PATH, env:NAME or systemd:NAME, where the secret is and not what it is", setting)
	}
	reader := secret.Reader{Secrets: []specs.Secret{s}}
	return func() (string, error) { return reader.Read(setting) }, nil
}
