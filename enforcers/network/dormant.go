package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// A table of nf_tables can be dormant: its rules are all there and none is
// asked. iptables-save shows such a table as any other, so what it writes is
// kept with a comment more, in the form of its own ones.
const (
	noteBegin = "# Table `"
	noteEnd   = "' is dormant"
)

func dormantNote(table string) string { return noteBegin + table + noteEnd + "\n" }

// dormantTable is the table that a line of the saved text calls dormant.
func dormantTable(line string) (string, bool) {
	name, ok := strings.CutPrefix(line, noteBegin)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(name, noteEnd)
}

// dormantNotes are the comments on a family's tables. The legacy kind of
// iptables has tables of its own, which always work.
func dormantNotes(family string) (string, error) {
	path, err := exec.LookPath(program(family, "save"))
	if err != nil {
		return "", err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	if filepath.Base(path) == "xtables-legacy-multi" {
		return "", nil
	}
	flags, err := tableFlags(family)
	if err != nil {
		return "", err
	}
	var notes []string
	for table, f := range flags {
		if f&unix.NFT_TABLE_F_DORMANT != 0 {
			notes = append(notes, dormantNote(table))
		}
	}
	slices.Sort(notes)
	return strings.Join(notes, ""), nil
}

// tableFlags are the flags of a family's tables of nf_tables, by name. A kernel
// without nf_tables has no tables of it.
func tableFlags(family string) (map[string]uint32, error) {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETTABLE, unix.NLM_F_DUMP)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: familyNumber(family), Version: nl.NFNETLINK_V0})
	var answers [][]byte
	var err error
	for range attempts {
		answers, err = req.Execute(unix.NETLINK_NETFILTER, unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWTABLE)
		if !errors.Is(err, netlink.ErrDumpInterrupted) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("nf_tables: tables: %w", err)
	}
	out := map[string]uint32{}
	for _, a := range answers {
		name, flags, err := parseTable(a)
		if err != nil {
			return nil, fmt.Errorf("nf_tables: tables: %w", err)
		}
		out[name] = flags
	}
	return out, nil
}

// parseTable reads an NFT_MSG_NEWTABLE, see linux/netfilter/nf_tables.h.
func parseTable(m []byte) (name string, flags uint32, err error) {
	if len(m) < nl.SizeofNfgenmsg {
		return "", 0, errors.New("an answer is cut off")
	}
	attrs, err := nl.ParseRouteAttrAsMap(m[nl.SizeofNfgenmsg:])
	if err != nil {
		return "", 0, err
	}
	f := attrs[unix.NFTA_TABLE_FLAGS].Value
	if name = nl.BytesToString(attrs[unix.NFTA_TABLE_NAME].Value); name == "" || len(f) != 4 {
		return "", 0, fmt.Errorf("the table %q has flags of %d bytes", name, len(f))
	}
	return name, binary.BigEndian.Uint32(f), nil
}

func familyNumber(family string) uint8 {
	if family == v6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// wakeTable makes the rules of a table be asked again.
func wakeTable(family, table string) error {
	all, err := tableFlags(family)
	if err != nil {
		return err
	}
	flags := all[table]
	if flags&unix.NFT_TABLE_F_DORMANT == 0 {
		return nil
	}
	if err := setTableFlags(family, table, flags&^unix.NFT_TABLE_F_DORMANT); err != nil {
		return fmt.Errorf("nf_tables: wake the table %s of %s: %w", table, family, err)
	}
	return nil
}

// setTableFlags is a transaction of one change, see nf_tables_newtable of the
// kernel's net/netfilter/nf_tables_api.c.
func setTableFlags(family, table string, flags uint32) error {
	message := func(kind int, flags int, head *nl.Nfgenmsg, attrs ...*nl.RtAttr) []byte {
		req := nl.NewNetlinkRequest(kind, flags)
		req.AddData(head)
		for _, a := range attrs {
			req.AddData(a)
		}
		return req.Serialize()
	}
	// The resource is a number in the network's byte order.
	batch := &nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0, ResId: nl.Swap16(unix.NFNL_SUBSYS_NFTABLES)}
	change := message(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWTABLE, unix.NLM_F_ACK,
		&nl.Nfgenmsg{NfgenFamily: familyNumber(family), Version: nl.NFNETLINK_V0},
		nl.NewRtAttr(unix.NFTA_TABLE_NAME, nl.ZeroTerminated(table)),
		nl.NewRtAttr(unix.NFTA_TABLE_FLAGS, binary.BigEndian.AppendUint32(nil, flags)))
	s, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.SetReceiveTimeout(&unix.Timeval{Sec: 5}); err != nil {
		return err
	}
	text := slices.Concat(message(unix.NFNL_MSG_BATCH_BEGIN, 0, batch), change, message(unix.NFNL_MSG_BATCH_END, 0, batch))
	if err := unix.Sendto(s.GetFd(), text, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	return acknowledged(s)
}

// acknowledged is what the kernel says to a batch: its first answer is the
// error of one of the messages, or zero for the one change.
func acknowledged(s *nl.NetlinkSocket) error {
	for {
		answers, _, err := s.Receive()
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Header.Type != unix.NLMSG_ERROR || len(a.Data) < 4 {
				continue
			}
			if code := int32(binary.NativeEndian.Uint32(a.Data)); code != 0 {
				return syscall.Errno(-code)
			}
			return nil
		}
	}
}
