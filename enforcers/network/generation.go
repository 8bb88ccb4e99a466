package network

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/atomicfile"
)

// ruleState names one state of a family's rules. nf_tables counts its
// transactions in each network namespace (NFT_MSG_GETGEN): while the number
// stands, nobody has changed a rule, ours or theirs, whatever the program.
type ruleState struct {
	Boot       string `json:"boot"`
	Namespace  string `json:"namespace"`
	Program    string `json:"program"` // that saves the rules, with all links followed
	Generation uint32 `json:"generation"`
}

// ruleState is how the rules are now. It is not known (false) for the legacy
// kind of iptables, which counts nothing.
func (linux) ruleState(family string) (ruleState, bool) {
	path, err := exec.LookPath(program(family, "save"))
	if err != nil {
		return ruleState{}, false
	}
	var s ruleState
	var failed [3]error
	if s.Program, failed[0] = filepath.EvalSymlinks(path); filepath.Base(s.Program) != "xtables-nft-multi" {
		return ruleState{}, false
	}
	s.Boot, failed[1] = readTrimmed("/proc/sys/kernel/random/boot_id")
	s.Namespace, failed[2] = os.Readlink("/proc/thread-self/ns/net")
	if errors.Join(failed[:]...) != nil {
		return ruleState{}, false
	}
	s.Generation, err = generation()
	return s, err == nil
}

// generation is the number of the last transaction of nf_tables.
func generation() (uint32, error) {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETGEN, 0)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	answers, err := req.Execute(unix.NETLINK_NETFILTER, unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN)
	if err != nil {
		return 0, fmt.Errorf("nf_tables: generation: %w", err)
	}
	for _, a := range answers {
		if len(a) < nl.SizeofNfgenmsg {
			continue
		}
		attrs, err := nl.ParseRouteAttrAsMap(a[nl.SizeofNfgenmsg:])
		if err != nil {
			return 0, fmt.Errorf("nf_tables: generation: %w", err)
		}
		if id, ok := attrs[unix.NFTA_GEN_ID]; ok && len(id.Value) == 4 {
			return binary.BigEndian.Uint32(id.Value), nil
		}
	}
	return 0, errors.New("nf_tables: generation: the kernel did not say")
}

// kept is a saved text with the state that it is of.
type kept struct {
	State ruleState `json:"state"`
	Text  string    `json:"text"`
}

// saved is the text that was saved in that state.
func (k linux) saved(family string, state ruleState) (string, bool) {
	b, err := os.ReadFile(k.dir.Rules(family))
	if err != nil {
		return "", false
	}
	var had kept
	if json.Unmarshal(b, &had) != nil || had.State != state || !strings.HasSuffix(had.Text, "\n") && had.Text != "" {
		return "", false
	}
	return had.Text, true
}

// keep writes the text down for who starts a session next. A failure costs
// that one a few milliseconds, so it is nothing to tell. One at a time does it:
// then what a killed process leaves half written is known by its name.
func (k linux) keep(family string, state ruleState, text string) {
	b, err := json.Marshal(kept{state, text})
	if err != nil {
		return
	}
	if _, err := os.Lstat(string(k.dir)); err != nil {
		return // nothing of cordon's is here
	}
	path := k.dir.Rules(family)
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	defer lock.Close() //nolint:errcheck // nothing was written
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		_ = atomicfile.Replace(path+".new", path, b, 0o600)
	}
}
