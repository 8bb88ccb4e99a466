package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// session is a conversation with git-upload-pack: the references, then at most
// one pack. See gitprotocol-pack(5).
type session interface {
	AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error)
	UploadPack(context.Context, *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
	Close() error
}

// pipe is a session with a git-upload-pack at the other end of two streams.
type pipe struct {
	in    io.WriteCloser
	out   io.Reader
	end   func() error // closes both; says what the other end said on its way out
	asked bool
	ended bool
	said  error
}

// Close takes leave, so that the other end doesn't complain.
func (p *pipe) Close() error {
	if p.ended {
		return p.said
	}
	p.ended = true
	if !p.asked {
		_, _ = p.in.Write(pktline.FlushPkt)
	}
	p.said = p.end()
	return p.said
}

func (p *pipe) AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	err := refs.Decode(p.out)
	if errors.Is(err, packp.ErrEmptyAdvRefs) || err == nil && refs.IsEmpty() {
		return nil, transport.ErrEmptyRemoteRepository
	}
	if err != nil {
		return nil, errors.Join(p.Close(), err)
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	return refs, nil
}

func (p *pipe) UploadPack(_ context.Context, r *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	p.asked = true
	var b bytes.Buffer
	if err := errors.Join(r.UploadRequest.Encode(&b), r.UploadHaves.Encode(&b, true), pktline.NewEncoder(&b).Encodef("done\n")); err != nil {
		return nil, err
	}
	if _, err := p.in.Write(b.Bytes()); err != nil {
		return nil, errors.Join(p.Close(), err)
	}
	answer := packp.NewUploadPackResponse(r)
	if err := answer.Decode(io.NopCloser(p.out)); err != nil {
		return nil, errors.Join(p.Close(), err)
	}
	return answer, nil
}

// wish is what to fetch.
type wish struct {
	want  []plumbing.Hash
	have  []plumbing.Hash // what the storage has, with all that belongs to it
	edge  []plumbing.Hash // commits in the storage whose parents are not
	depth int             // commits; 0 is all
	bare  bool            // commits alone, if the server can leave out the rest
}

// fetch stores what is wished for.
func fetch(ctx context.Context, s session, refs *packp.AdvRefs, w wish, into storer.Storer, limit int64) error {
	request := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	for _, c := range []capability.Capability{capability.NoProgress, capability.Shallow, capability.Filter} {
		if refs.Capabilities.Supports(c) && (c != capability.Filter || w.bare) {
			if err := request.Capabilities.Set(c); err != nil {
				return err
			}
		}
	}
	if w.bare && refs.Capabilities.Supports(capability.Filter) {
		request.Filter = packp.FilterTreeDepth(0)
	}
	request.Wants, request.Haves, request.Shallows = w.want, w.have, w.edge
	request.Depth = packp.DepthCommits(w.depth)
	if err := request.Validate(); err != nil {
		return err
	}
	answer, err := s.UploadPack(ctx, request)
	if err != nil {
		return err
	}
	defer answer.Close() //nolint:errcheck // read to its end
	bounded := &bounded{r: unband(request.Capabilities, answer), left: limit, limit: limit}
	if err := packfile.UpdateObjectStorage(into, bounded); err != nil {
		if bounded.left < 0 {
			return bounded.err()
		}
		return fmt.Errorf("receive a pack: %w", errors.Join(context.Cause(ctx), err))
	}
	return nil
}

func unband(c *capability.List, r io.Reader) io.Reader {
	switch {
	case c.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, r)
	case c.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, r)
	}
	return bufio.NewReader(r)
}

// errTooLarge is for answers of more than Options.MaxPack.
var errTooLarge = errors.New("the server's answer is too large")

// bounded reads at most limit bytes, and fails at the next.
type bounded struct {
	r           io.Reader
	left, limit int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, b.err()
	}
	return n, err
}

func (b *bounded) err() error { return fmt.Errorf("%w: more than %d bytes", errTooLarge, b.limit) }
