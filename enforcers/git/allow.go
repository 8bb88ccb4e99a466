package git

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// mark is the setting that shows a repository to be cordon's to keep.
const (
	markSection = "cordon"
	markName    = "project"
	remoteName  = "origin"
)

var plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/-]{0,63}$`) })

// allowed tells whether a setting may stay. The list is of what may, since
// every release of git knows new settings that run a program or name a file.
func allowed(s setting) bool {
	full := s.section + "." + s.name
	if s.hasSub {
		full = s.section + ".*." + s.name
	}
	switch full {
	case "core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates", "core.ignorecase",
		"core.precomposeunicode", "core.symlinks", "core.autocrlf", "core.eol", "core.safecrlf", "core.abbrev",
		"core.compression", "core.quotepath", "core.protecthfs", "core.protectntfs",
		"extensions.objectformat", "extensions.partialclone",
		"user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email",
		"init.defaultbranch", "color.ui", "advice.detachedhead", "advice.defaultbranchname",
		"pull.rebase", "pull.ff", "push.default", "push.autosetupremote", "push.followtags",
		"fetch.prune", "fetch.prunetags", "merge.conflictstyle", "merge.ff", "rebase.autosquash", "rebase.autostash",
		"diff.algorithm", "diff.renames", "gc.auto", "gc.autodetach", "commit.verbose",
		"lfs.repositoryformatversion",
		"branch.*.merge", "branch.*.rebase", "branch.*.description",
		"remote.*.fetch", "remote.*.tagopt", "remote.*.prune", "remote.*.promisor", "remote.*.partialclonefilter",
		"submodule.*.active", "submodule.active":
		return true
	case "branch.*.remote", "branch.*.pushremote", "remote.pushdefault":
		return s.value == "." || plainName().MatchString(s.value) // and not an address
	case "remote.*.url", "submodule.*.url":
		shown, ok := safeURL(s.value)
		return ok && shown == s.value && (s.section != "remote" || plainName().MatchString(s.subsection))
	case "lfs.*.locksverify": // Git LFS writes it when it has pushed
		shown, ok := safeURL(s.subsection)
		return ok && shown == s.subsection && (s.value == "true" || s.value == "false")
	case "submodule.*.update":
		return slices.Contains([]string{"checkout", "rebase", "merge", "none"}, s.value)
	}
	return false
}

// shownName names a setting without anything that could be a secret: values
// never, subsections only where they are plain names.
func shownName(s setting) string {
	sub := ""
	if s.hasSub {
		sub = ".*"
		named := s.section == "branch" || s.section == "remote" || s.section == "submodule"
		if named && plainName().MatchString(s.subsection) {
			sub = "." + s.subsection
		}
	}
	return s.section + sub + "." + s.name
}

// holdsCredential tells whether a value looks as if a secret had stood in it.
func holdsCredential(s setting) bool {
	for _, text := range []string{s.value, s.subsection} {
		if _, rest, ok := strings.Cut(text, "://"); ok {
			host, _, _ := strings.Cut(rest, "/")
			if strings.Contains(host, "@") {
				return true
			}
		}
	}
	switch {
	case s.section == "http" && (s.name == "extraheader" || s.name == "cookiefile" || s.name == "proxy"),
		s.section == "credential", strings.Contains(s.name, "token"), strings.Contains(s.name, "password"):
		return true
	}
	return false
}

// state is what settings come to.
type state struct {
	remote    string
	marked    bool
	keep      []setting // what may stay; neither mark nor the remote's address
	drift     []string
	exposed   bool // a credential stood there
	addresses int  // of the remote
}

func examine(settings []setting, project string) state {
	var st state
	for _, s := range settings {
		switch {
		case s.section == markSection && !s.hasSub && s.name == markName && s.value == project:
			st.marked = true
			continue
		case s.section == "remote" && s.hasSub && s.subsection == remoteName && s.name == "url":
			st.address(s)
			continue
		case allowed(s):
			st.keep = append(st.keep, s)
			continue
		}
		what := shownName(s)
		if holdsCredential(s) {
			st.exposed = true
			what += " (may hold a credential)"
		}
		st.drift = append(st.drift, what)
	}
	slices.Sort(st.drift)
	st.drift = slices.Compact(st.drift)
	return st
}

// address takes in an address of the declared remote.
func (st *state) address(s setting) {
	st.addresses++
	shown, ok := safeURL(s.value)
	switch {
	case st.addresses > 1:
		st.drift = append(st.drift, shownName(s)+" more than once")
	case ok:
		st.remote = shown
	}
	if !ok {
		st.drift = append(st.drift, shownName(s)+" is no address of another host")
	} else if shown != s.value {
		st.drift = append(st.drift, shownName(s)+" holds a credential")
	}
	st.exposed = st.exposed || holdsCredential(s)
}

// wanted is what the file is to say.
func (st state) wanted(project, remote string) []setting {
	out := slices.Clone(st.keep)
	fetch := false
	has := map[string]bool{}
	for _, s := range out {
		has[s.section+"."+s.name] = true
		fetch = fetch || s.section == "remote" && s.subsection == remoteName && s.name == "fetch"
	}
	if !has["core.repositoryformatversion"] {
		out = slices.Insert(out, 0, setting{section: "core", name: "repositoryformatversion", value: "0"})
	}
	if remote != "" {
		out = append(out, setting{section: "remote", subsection: remoteName, hasSub: true, name: "url", value: remote})
	}
	if remote != "" && !fetch {
		out = append(out, allBranches())
	}
	return append(out, setting{section: markSection, name: markName, value: project})
}

// allBranches is what a remote has to be fetched from it, by default.
func allBranches() setting {
	return setting{section: "remote", subsection: remoteName, hasSub: true, name: "fetch", value: "+refs/heads/*:refs/remotes/" + remoteName + "/*"}
}
