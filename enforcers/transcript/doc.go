// Package transcript takes out of an agent's transcripts what belonged to one
// session only: the addresses of its slot, its token, and every credential
// that was injected for it.
//
// Mechanism. [Scrub] walks the tree by directory descriptors, reads each
// regular file once through an automaton over all forms that a value may be
// written in (plain, mapped, hexadecimal, integer, base64, escaped for JSON or
// URLs, also twice), and replaces only files in which something was found. A
// file is written anew in a staging directory that the tree's owner can't look
// into, and exchanged with the old one in one step.
//
// Mark. The staging directory is called .cordon-scrub-*, belongs to whom cordon
// runs as, is closed to all others and locked while it is used; one that
// nobody has locked is left over from a killed process and is removed.
//
// The tree belongs to the agent, who may still be running: symbolic links are
// never followed, not in the path to the tree either; files with a second
// name, FIFOs, sockets and devices are not even opened.
//
// JSON. Valid lines stay valid: a replacement never cuts an escape sequence,
// and a number becomes a string. A block with a signature (thinking) is either
// not touched at all or replaced whole by a text block, since the API that
// made it refuses one that was changed.
//
// Privilege. None beyond the right to replace the files; to keep the owner of
// files of others it takes CAP_CHOWN.
package transcript
