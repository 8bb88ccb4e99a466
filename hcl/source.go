package hcl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/aicodesit/cordon/specs"
)

// MaxFile is the size in bytes from which on a file is refused. It is far
// above what people write and far below what would hold up a host.
const MaxFile = 10_000_000

// File is a file of a directory, wherever it was read from.
type File struct {
	Name  string // as diagnostics show it
	Bytes []byte
}

// source is a file with what is needed to point into it.
type source struct {
	name   string
	bytes  []byte
	lines  []int // byte offsets of the starts of lines; made on first use
	blocks []*block
}

// ReadDir returns the files that [Load] reads, sorted by name, and what keeps
// it from reading others.
func ReadDir(dir string) ([]File, Diagnostics) {
	r := &reporter{}
	files, _ := readDir(dir, r)
	return files, r.finish(nil)
}

// readDir returns the files of the namespace, sorted by name, and reports
// those that can't be read. complete is false if any could not.
func readDir(dir string, r *reporter) (files []File, complete bool) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.report(missingFile(dir, "no such directory", "Name the directory that holds the *.hcl files with -C or CORDON_DIR."))
		return nil, false
	case errors.Is(err, syscall.ENOTDIR):
		r.report(missingFile(dir, "not a directory", "cordon reads all *.hcl files of a directory; name the directory instead of the file."))
		return nil, false
	case err != nil:
		r.report(missingFile(dir, "the directory can't be read", err.Error()))
		return nil, false
	}
	complete = true
	found := false
	for _, e := range entries {
		ending := filepath.Ext(e.Name())
		if !strings.EqualFold(ending, ".hcl") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		found = true
		name := filepath.Join(dir, e.Name())
		if ending != ".hcl" {
			r.report(missingFile(name, "the file would not be read", fmt.Sprintf("Its name must end in .hcl, not %s. Rename it, or move it out of the directory.", ending)))
			complete = false
			continue
		}
		b, problem := readFile(name)
		if problem != nil {
			r.report(*problem)
			complete = false
			continue
		}
		files = append(files, File{Name: name, Bytes: b})
	}
	if !found {
		r.report(missingFile(dir, "no *.hcl file in this directory",
			"An empty directory declares nothing, and is never taken to mean that all should be removed. Files in directories below it are not read."))
	}
	return files, complete && found
}

func missingFile(name, summary, detail string) Diagnostic {
	return Diagnostic{Severity: Error, Summary: summary, Detail: detail, Range: specs.Range{File: name}}
}

// readFile reads a regular file, or what a symbolic link to one leads to. It
// never blocks on a FIFO and never reads more than MaxFile bytes.
func readFile(name string) ([]byte, *Diagnostic) {
	refuse := func(summary, detail string) ([]byte, *Diagnostic) {
		d := missingFile(name, summary, detail)
		return nil, &d
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return refuse("the file can't be read", err.Error())
	}
	defer f.Close() //nolint:errcheck // opened for reading
	info, err := f.Stat()
	if err != nil {
		return refuse("the file can't be read", err.Error())
	}
	if !info.Mode().IsRegular() {
		return refuse("not a regular file", fmt.Sprintf("A name that ends in .hcl must be a file or a symbolic link to one; this is a %s.", kindOf(info.Mode())))
	}
	if info.Size() >= MaxFile {
		return refuse("the file is too large", fmt.Sprintf("It has %d bytes; a file must have less than %d. Split it, or use for_each for what is alike.", info.Size(), MaxFile))
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxFile))
	if err != nil {
		return refuse("the file can't be read", err.Error())
	}
	if len(b) >= MaxFile {
		return refuse("the file is too large", fmt.Sprintf("It must have less than %d bytes.", MaxFile))
	}
	return b, nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeNamedPipe != 0:
		return "FIFO"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// rangeAt is the place of the byte at offset.
func (s *source) rangeAt(offset int) specs.Range {
	line := s.lineOf(offset)
	column := 1 + utf8.RuneCount(s.bytes[s.lines[line-1]:offset])
	return specs.Range{
		File: s.name, Line: line, Column: column, Byte: offset,
		EndLine: line, EndCol: column + 1, EndBy: offset + 1,
	}
}

// lineOf is the number, from 1, of the line that offset lies in.
func (s *source) lineOf(offset int) int {
	s.index()
	return sort.SearchInts(s.lines, offset+1)
}

// line returns the text of a line, without its end; ok is false if there is
// no such line.
func (s *source) line(n int) (text string, start int, ok bool) {
	s.index()
	if n < 1 || n > len(s.lines) {
		return "", 0, false
	}
	start = s.lines[n-1]
	end := len(s.bytes)
	if n < len(s.lines) {
		end = s.lines[n] - 1
	}
	return strings.TrimSuffix(string(s.bytes[start:end]), "\r"), start, true
}

func (s *source) index() {
	if s.lines != nil {
		return
	}
	s.lines = []int{0}
	for i, b := range s.bytes {
		if b == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
}

// addressAt is the address of the block that the byte at offset lies in.
func (s *source) addressAt(offset int) string {
	i := sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].body.SrcRange.End.Byte > offset })
	if i == len(s.blocks) || s.blocks[i].syntax.TypeRange.Start.Byte > offset {
		return ""
	}
	return s.blocks[i].address()
}
