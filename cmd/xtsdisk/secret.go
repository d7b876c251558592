package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/xtsdisk/xtsdisk/internal/lock"
	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// maxKeyFile is cryptsetup's limit on key files; a longer file is more likely
// the wrong one.
const maxKeyFile = 8 << 20

const stdinName = "-"

// keyFlags are the ways to give a passphrase: --key-file takes exact bytes,
// --passphrase-file and --passphrase-fd drop one trailing newline, and without
// any of them the terminal is asked.
type keyFlags struct {
	keyFile        string
	offset, size   size
	passphraseFile string
	passphraseFD   int
	tries          int
	allowEmpty     bool // a new passphrase may be empty

	names *keyFlagNames
	fs    *pflag.FlagSet
}

// keyFlagNames are the names of the options.
type keyFlagNames struct{ keyFile, offset, size, passphraseFile, passphraseFD string }

var (
	keyNames    = keyFlagNames{"key-file", "keyfile-offset", "keyfile-size", "passphrase-file", "passphrase-fd"}
	newKeyNames = keyFlagNames{"new-keyfile", "new-keyfile-offset", "new-keyfile-size", "new-passphrase-file", "new-passphrase-fd"}
)

func (k *keyFlags) register(fs *pflag.FlagSet, retry bool) {
	k.fs, k.names = fs, &keyNames
	k.offset, k.size = bytesFlag(), bytesFlag()
	inGroup(fs, flagsKeys, func() {
		fs.StringVarP(&k.keyFile, "key-file", "d", "", "`FILE`: its exact bytes are the passphrase; - is stdin")
		fs.Var(&k.offset, "keyfile-offset", "bytes to skip in the key file")
		fs.VarP(&k.size, "keyfile-size", "l", "bytes to read from the key file")
		fs.StringVar(&k.passphraseFile, "passphrase-file", "", "`FILE`: holds the passphrase; one newline at its end is dropped; - is stdin")
		fs.IntVar(&k.passphraseFD, "passphrase-fd", -1, "`N`: the same from a file descriptor that is open")
		if retry {
			fs.IntVarP(&k.tries, "tries", "T", 3, "`N`: how often the terminal is asked")
		}
	})
}

// registerNew adds the options for a second passphrase, the one to be set.
func (k *keyFlags) registerNew(fs *pflag.FlagSet) {
	k.fs, k.names = fs, &newKeyNames
	k.offset, k.size = bytesFlag(), bytesFlag()
	inGroup(fs, flagsNewKey, func() {
		fs.StringVar(&k.keyFile, k.names.keyFile, "", "`FILE`: its exact bytes are the new passphrase; - is stdin")
		fs.Var(&k.offset, k.names.offset, "bytes to skip in that file")
		fs.Var(&k.size, k.names.size, "bytes to read from that file")
		fs.StringVar(&k.passphraseFile, k.names.passphraseFile, "", "`FILE`: holds the new passphrase; one newline at its end is dropped")
		fs.IntVar(&k.passphraseFD, k.names.passphraseFD, -1, "`N`: the same from a file descriptor that is open")
		fs.BoolVar(&k.allowEmpty, "force-empty", false, "set an empty passphrase, which protects nothing")
	})
}

// key is a passphrase or key and where it came from.
type key struct {
	*secret.Buffer
	from    string // "key file disk.key"; "" if typed
	keyFile bool   // --key-file: exact bytes, used raw by the plain type
	newline bool   // a key file that ends with a newline, which counted
	hashed  []byte // a plain volume's key made of it
}

// Destroy clears all of it.
func (k *key) Destroy() {
	secret.Wipe(k.hashed)
	k.Buffer.Destroy()
}

func (k *key) typed() bool { return k.from == "" }

// given lists the options that name a source of the passphrase.
func (k *keyFlags) given() []string {
	var names []string
	for _, name := range []string{k.names.keyFile, k.names.passphraseFile, k.names.passphraseFD} {
		if k.fs.Changed(name) {
			names = append(names, "--"+name)
		}
	}
	return names
}

// check finds contradictions before anything is read. dataFromStdin is the
// argument that already takes standard input for data.
func (k *keyFlags) check(dataFromStdin bool) error {
	given := k.given()
	if len(given) > 1 {
		return usagef("give one of them only", "%s both say where the passphrase comes from", joinWords(given, "and"))
	}
	for _, name := range []string{k.names.offset, k.names.size} {
		if k.fs.Changed(name) && !k.fs.Changed(k.names.keyFile) {
			return usagef("add --"+k.names.keyFile+" FILE, or leave it away", "--%s needs --%s", name, k.names.keyFile)
		}
	}
	if k.names == &keyNames && k.fs.Changed("tries") && k.tries < 1 {
		return usagef("1 asks once", "--tries %d", k.tries)
	}
	if k.fs.Changed(k.names.size) && k.size.bytes == 0 {
		return usagef("leave it away to read the whole file", "--%s 0 reads nothing", k.names.size)
	}
	if fd := "--" + k.names.passphraseFD; k.fs.Changed(k.names.passphraseFD) && k.passphraseFD < 0 {
		return usagef("such as "+fd+" 3, with the shell's 3<FILE", "%s %d is not a file descriptor", fd, k.passphraseFD)
	} else if k.fs.Changed(k.names.passphraseFD) {
		if err := checkInherited(fd+" "+strconv.Itoa(k.passphraseFD), k.passphraseFD); err != nil {
			return err
		}
	}
	for _, name := range []string{k.keyFile, k.passphraseFile} {
		if err := checkDescriptor(name); err != nil {
			return err
		}
	}
	if dataFromStdin && k.usesStdin() {
		return usagef("give the passphrase by --key-file FILE, --passphrase-file FILE or --passphrase-fd N (N above 2), or on the terminal",
			"data and passphrase cannot both come from standard input")
	}
	return nil
}

// usesStdin also sees through other names of standard input, such as
// /dev/stdin.
func (k *keyFlags) usesStdin() bool {
	if k.fs.Changed(k.names.passphraseFD) && k.passphraseFD == 0 {
		return true
	}
	for _, name := range []string{k.keyFile, k.passphraseFile} {
		if name == stdinName {
			return true
		}
		if name == "" {
			continue
		}
		there, err1 := os.Stat(name)
		stdin, err2 := os.Stdin.Stat()
		if err1 == nil && err2 == nil && os.SameFile(there, stdin) && !there.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// checkDescriptor is checkInherited for the name of a file, where that is of a
// descriptor.
func checkDescriptor(name string) error {
	for _, dir := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if number, ok := strings.CutPrefix(name, dir); ok {
			if fd, err := strconv.Atoi(number); err == nil {
				return checkInherited(name, fd)
			}
		}
	}
	return nil
}

// checkInherited refuses a descriptor that the program was not started with.
// Once it has opened files of its own, any of them could be there, and the
// bytes of a disk image would become the passphrase.
func checkInherited(what string, fd int) error {
	if inherited(fd) {
		return nil
	}
	return usagef(fmt.Sprintf("in a shell, open it with %d<FILE", fd), "%s: no file is open there", what)
}

// checkSpared refuses a target that is one of the files with keys: they would
// be overwritten, and what they open could not be opened any more.
func checkSpared(dst string, files ...string) error {
	for _, name := range files {
		if name == "" || dst == stdinName {
			continue
		}
		same, err := lock.Same(name, dst)
		if name == stdinName {
			same, err = lock.SameOpen(os.Stdin, dst)
		}
		if err == nil && same { // what cannot be looked at cannot be read or written either
			return refusef("name another target", "%s holds the key: it would be overwritten", dst)
		}
	}
	return nil
}

// files are where the passphrase comes from.
func (k *keyFlags) files() []string {
	list := []string{k.keyFile, k.passphraseFile}
	if k.fs.Changed(k.names.passphraseFD) {
		list = append(list, "/dev/fd/"+strconv.Itoa(k.passphraseFD))
	}
	return list
}

// read gets the passphrase; what names it in a prompt, and again asks twice.
func (k *keyFlags) read(a *app, what string, again bool) (*key, error) {
	defer a.tellUnlocked()
	switch {
	case k.fs.Changed(k.names.keyFile):
		return k.readKeyFile(a)
	case k.fs.Changed(k.names.passphraseFile):
		return readPassphraseFile(a, k.passphraseFile)
	case k.fs.Changed(k.names.passphraseFD):
		return k.readDescriptor(a)
	case again:
		buf, err := promptTwice(a, what, k.allowEmpty)
		return &key{Buffer: buf}, err
	}
	buf, err := prompt(a, "Passphrase for "+what+": ")
	return &key{Buffer: buf}, err
}

// readNew is read for a volume that is being made, which gets no empty
// passphrase.
func (k *keyFlags) readNew(a *app, what string) (*key, error) {
	got, err := k.read(a, what, true)
	if err == nil && got.Len() == 0 && !k.allowEmpty {
		got.Destroy()
		return nil, refusef("put a passphrase or random bytes into it, such as  head -c 32 /dev/urandom > FILE", "%s is empty: it protects nothing", got.from)
	}
	return got, err
}

func (k *keyFlags) readDescriptor(a *app) (*key, error) {
	f := os.NewFile(uintptr(k.passphraseFD), "passphrase-fd")
	if f == nil {
		return nil, usagef("", "--%s %d is not a file descriptor", k.names.passphraseFD, k.passphraseFD)
	}
	if _, err := f.Stat(); err != nil {
		return nil, usagef(fmt.Sprintf("in a shell, open it with %d<FILE", k.passphraseFD), "--%s %d: no file is open there", k.names.passphraseFD, k.passphraseFD)
	}
	return passphraseFrom(interruptible{a.ctx, f}, fmt.Sprintf("file descriptor %d", k.passphraseFD))
}

// tellUnlocked says once if keys lie in memory that could not be locked.
func (a *app) tellUnlocked() {
	if secret.Unlocked() {
		a.unlocked.Do(func() { a.detail("the system did not allow to lock the keys' memory: they may be swapped out") })
	}
}

func (k *keyFlags) readKeyFile(a *app) (*key, error) {
	what := "key file " + k.keyFile
	f, err := a.open(k.keyFile, &what)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, plainPathError(err))
	}
	defer closeQuietly(f)
	if n, err := skip(f, k.offset.bytes); errors.Is(err, io.EOF) {
		return nil, usagef("", "%s has %d bytes, --%s %d lies behind its end", what, n, k.names.offset, k.offset.bytes)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", what, plainPathError(err))
	}
	limit, want := int64(maxKeyFile), k.size.bytes
	if want > maxKeyFile {
		return nil, usagef("", "--%s %d is more than 8 MiB", k.names.size, want)
	}
	if want > 0 {
		limit = want
	}
	buf, more, err := readSecret(f, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, plainPathError(err))
	}
	if want == 0 && more {
		buf.Destroy()
		return nil, usagef("is it the right file? --"+k.names.size+" N uses its first N bytes", "%s is longer than 8 MiB", what)
	}
	if n := int64(buf.Len()); n < want {
		buf.Destroy()
		return nil, usagef("is it the right file, and whole?", "%s is too short: %d bytes after the offset, --%s asks for %d", what, n, k.names.size, want)
	}
	b := buf.Bytes()
	return &key{Buffer: buf, from: what, keyFile: true, newline: len(b) > 0 && b[len(b)-1] == '\n'}, nil
}

func readPassphraseFile(a *app, name string) (*key, error) {
	what := "passphrase file " + name
	f, err := a.open(name, &what)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, plainPathError(err))
	}
	defer closeQuietly(f)
	return passphraseFrom(f, what)
}

// passphraseFrom reads to the end and drops exactly one newline there.
func passphraseFrom(r io.Reader, what string) (*key, error) {
	buf, more, err := readSecret(r, maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, plainPathError(err))
	}
	if more {
		buf.Destroy()
		return nil, usagef("is it the right file?", "%s is longer than 8 MiB", what)
	}
	if b := buf.Bytes(); len(b) > 0 && b[len(b)-1] == '\n' {
		short := secret.New(len(b) - 1)
		copy(short.Bytes(), b)
		buf.Destroy()
		buf = short
	}
	return &key{Buffer: buf, from: what}, nil
}

// open opens a file, or standard input for "-", which what then says. A pipe
// that nobody opens or feeds ends with the context.
func (a *app) open(name string, what *string) (io.ReadCloser, error) {
	if name == stdinName {
		*what += " (standard input)"
		return io.NopCloser(interruptible{a.ctx, a.io.in}), nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return nil, usagef("name a file in it", "it is a folder")
	case mode&os.ModeSocket != 0:
		return nil, usagef("name a regular file or a pipe", "it is a socket")
	case mode.IsRegular(), mode&os.ModeDevice != 0 && mode&os.ModeCharDevice == 0:
		return os.Open(name)
	}
	f, err := await(a.ctx, func() (*os.File, error) { return os.Open(name) })
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{interruptible{a.ctx, f}, f}, nil
}

// skip passes over n bytes; io.EOF says that there are fewer, and how many. A
// key can lie far inside a disk: what has places is not read up to there.
func skip(r io.Reader, n int64) (int64, error) {
	if n == 0 {
		return 0, nil
	}
	if f, ok := r.(io.Seeker); ok {
		end, err := f.Seek(0, io.SeekEnd)
		if err == nil && end > 0 { // files of /proc have no size
			if n > end {
				return end, io.EOF
			}
			return f.Seek(n, io.SeekStart)
		}
	}
	got, err := io.CopyN(io.Discard, r, n)
	return got, err
}

// readSecret reads up to limit bytes without leaving copies on the heap, and
// tells whether there was more.
func readSecret(r io.Reader, limit int64) (buf *secret.Buffer, more bool, err error) {
	buf = secret.New(4096)
	n := 0
	defer func() {
		whole := buf
		buf = secret.New(n)
		copy(buf.Bytes(), whole.Bytes())
		whole.Destroy()
		if err != nil {
			buf.Destroy()
			buf = nil
		}
	}()
	for int64(n) < limit {
		if n == buf.Len() {
			larger := secret.New(2 * n)
			copy(larger.Bytes(), buf.Bytes())
			buf.Destroy()
			buf = larger
		}
		got, err := r.Read(buf.Bytes()[n:min(int64(buf.Len()), limit)])
		n += got
		if errors.Is(err, io.EOF) {
			return buf, false, nil
		}
		if err != nil {
			return buf, false, err
		}
	}
	if limit < maxKeyFile {
		return buf, false, nil // --keyfile-size: what follows is no concern
	}
	one := secret.New(1)
	defer one.Destroy()
	_, err = io.ReadFull(r, one.Bytes())
	if errors.Is(err, io.EOF) {
		return buf, false, nil
	}
	return buf, err == nil, err
}
