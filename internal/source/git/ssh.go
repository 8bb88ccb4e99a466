package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
)

// farewell is how long the server has to end.
const farewell = time.Second

// ssh opens a session over ssh, to a server whose key is in the known_hosts
// file. Nothing of the user's ssh configuration is read.
func (s *Source) ssh(ctx context.Context, c Credentials) (session, error) {
	port := s.endpoint.Port
	if port <= 0 {
		port = 22
	}
	address := net.JoinHostPort(s.endpoint.Host, strconv.Itoa(port))
	config, err := s.sshConfig(address, c)
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // a server that is silent
	client, err := sshClient(conn, address, config)
	if err != nil {
		stop()
		_ = conn.Close()
		return nil, err
	}
	opened, err := s.uploadPack(client)
	if err != nil {
		stop()
		_ = client.Close()
		return nil, err
	}
	end := opened.end
	opened.end = func() error { defer stop(); return end() }
	return opened, nil
}

func sshClient(conn net.Conn, address string, config *ssh.ClientConfig) (*ssh.Client, error) {
	c, channels, requests, err := ssh.NewClientConn(conn, address, config)
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), nil
}

func (s *Source) sshConfig(address string, c Credentials) (*ssh.ClientConfig, error) {
	known, err := knownhosts.NewDB(s.KnownHosts)
	if err != nil {
		return nil, fmt.Errorf("known hosts: %w", err)
	}
	// A server has several keys, and would else show one that is not listed.
	algorithms := known.HostKeyAlgorithms(address)
	if len(algorithms) == 0 {
		return nil, fmt.Errorf("%s is not in %s: compare its key with what its owner says and add it (ssh-keyscan)", address, s.KnownHosts)
	}
	user := s.endpoint.User
	if user == "" {
		user = "git"
	}
	config := &ssh.ClientConfig{User: c.user(user), HostKeyCallback: known.HostKeyCallback(), HostKeyAlgorithms: algorithms}
	switch {
	case len(c.Key) > 0:
		signer, err := privateKey(c)
		if err != nil {
			return nil, err
		}
		config.Auth = []ssh.AuthMethod{ssh.PublicKeys(signer)}
	case c.Password != "":
		config.Auth = []ssh.AuthMethod{ssh.Password(c.Password)}
	}
	return config, nil
}

func privateKey(c Credentials) (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey(c.Key)
	if missing := new(ssh.PassphraseMissingError); errors.As(err, &missing) && c.Password != "" {
		signer, err = ssh.ParsePrivateKeyWithPassphrase(c.Key, []byte(c.Password))
	}
	if err != nil {
		return nil, errors.New("the private key can't be read, or its passphrase is wrong")
	}
	return signer, nil
}

func (s *Source) uploadPack(client *ssh.Client) (*pipe, error) {
	remote, err := client.NewSession()
	if err != nil {
		return nil, err
	}
	in, err := remote.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := remote.StdoutPipe()
	if err != nil {
		return nil, err
	}
	said := &tail{}
	remote.Stderr = said
	if err := remote.Start("git-upload-pack " + quote(s.endpoint.Path)); err != nil {
		return nil, err
	}
	end := func() error {
		_ = in.Close()
		late := time.AfterFunc(farewell, func() { _ = client.Close() })
		_ = remote.Wait() // until all that it says is read
		late.Stop()
		_ = client.Close()
		return said.err("the server")
	}
	return &pipe{in: in, out: bufio.NewReader(&bounded{r: out, left: s.MaxPack, limit: s.MaxPack}), end: end}, nil
}

// quote is for the shell at the other end, and for git-shell, which knows no
// other way; see sq_quote_buf in git.
func quote(s string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(s) + "'"
}
