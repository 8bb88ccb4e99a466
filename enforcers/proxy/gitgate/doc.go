// Package gitgate leads a session's git to its project's own repository, and
// to no other, with a credential that the session never has.
//
// Mechanism: paths of the proxy, /git/HOST/PATH behind which stands what
// git's smart HTTP protocol has (gitprotocol-http(5)). The session is known
// by its slot; it holds nothing to show, since what its git could show any
// process in it could. A path is compared byte for byte with that of the
// declared remote. What goes on is a new request, with the credential read at
// that moment; its body and the answer are streamed through a buffer of fixed
// size. No redirect is followed; the dumb protocol is refused.
//
// Pushes. The commands before the pack (gitprotocol-pack(5)) are read first,
// in a strict form, and each ref must match the project's push patterns: if
// one does not, nothing of the push goes on, and git shows why for each ref. A
// forced push is an update like any other here: telling it apart needs the
// history. So what matches may be created, changed and deleted. Options of a
// push and signed pushes are refused: hosts merge, or skip checks, by options.
//
// Git LFS. The batch API is passed on; what it names to transfer objects is
// sealed (AES-GCM, for this session) and leads through the gate as well:
// over https, to the remote's own host or one that is declared, and the
// credential goes to the remote's host only. Locks can be asked for; making and
// breaking one is refused.
//
// The credential, should the host send it back, is masked in whatever passes;
// a pack in which it stands thereby breaks.
//
// Mark: none; it keeps nothing. Privilege: none but to read the secrets.
package gitgate
