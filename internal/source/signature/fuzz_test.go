package signature

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func lines(b []byte) [][]string {
	var out [][]string
	for line := range strings.SplitSeq(string(b), "\n") {
		out = append(out, strings.Split(line, ":"))
	}
	return out
}

// without takes the colon off lines that begin with mark.
func without(text []byte, mark string) []byte {
	return bytes.ReplaceAll(text, []byte(mark), []byte(mark[1:]))
}

const fuzzKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJW0PAjaSjFFxPNgPkVyVMVYdZyEBCpGkNzjDz6HJAWp"

// Whatever the file says, it does not panic, and each line that is accepted
// has a principal and a key, and accepts no namespace that it does not list.
func FuzzAllowedSigners(f *testing.F) {
	f.Add([]byte("a " + fuzzKey))
	f.Add([]byte("# x\n\n*@x,!y namespaces=\"git,file\",valid-after=\"20240101Z\",valid-before=\"202501010000\" " + fuzzKey + " comment"))
	f.Add([]byte("\"a b\" cert-authority " + fuzzKey))
	f.Add([]byte("a namespaces=\"git"))
	f.Fuzz(func(t *testing.T, file []byte) {
		got, err := parseAllowed(file)
		if err != nil {
			return
		}
		for _, a := range got {
			if a.principals == "" || a.key == nil || strong(a.key) != nil {
				t.Fatalf("accepted %+v", a)
			}
			if a.namespaces != "" && a.accepts("\x00", time.Now()) == nil && !strings.ContainsAny(a.namespaces, "*?\x00") {
				t.Fatalf("%q accepts a namespace that is not in it", a.namespaces)
			}
		}
	})
}

// Nothing that is not signed by the one key is accepted, and nothing panics.
func FuzzVerify(f *testing.F) {
	const commit = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n"
	f.Add([]byte(commit + "gpgsig " + sshBegin + "\n U1NIU0lHAAAAAQ==\n " + sshEnd + "\n\nx\n"))
	f.Add([]byte(commit + "gpgsig " + pgpBegin + "\n \n iHUEABYKAB0=\n -----END PGP SIGNATURE-----\n\nx\n"))
	f.Add([]byte("object x\ntype commit\ntag v1\ntagger A <a@b> 1 +0000\n\nm\n" + sshBegin + "\n" + sshEnd + "\n"))
	keys, err := Parse([]byte("a "+fuzzKey), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		for _, kind := range []Kind{Commit, Tag} {
			if signer, err := keys.Verify(kind, object); err == nil {
				t.Fatalf("%q was accepted, of %s", object, signer)
			}
			payload, armored, err := split(kind, object)
			if err == nil && kind == Tag && string(payload)+armored != string(object) {
				t.Fatalf("%q and %q are not %q", payload, armored, object)
			}
		}
	})
}

func FuzzSSHSignature(f *testing.F) {
	f.Add(sshBegin + "\nU1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAg\n" + sshEnd)
	f.Add(sshBegin + "\n\n" + sshEnd)
	f.Fuzz(func(t *testing.T, armored string) {
		s, err := parseSSH(armored)
		if err != nil {
			return
		}
		if s.key == nil {
			t.Fatal("a signature without a key")
		}
		_ = s.verify([]byte("message"))
	})
}
