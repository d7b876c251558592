package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

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

	fs *pflag.FlagSet
}

func (k *keyFlags) register(fs *pflag.FlagSet, retry bool) {
	k.fs = fs
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
	for _, name := range []string{"key-file", "passphrase-file", "passphrase-fd"} {
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
	for _, name := range []string{"keyfile-offset", "keyfile-size"} {
		if k.fs.Changed(name) && !k.fs.Changed("key-file") {
			return usagef("add --key-file FILE, or leave it away", "--%s needs --key-file", name)
		}
	}
	if k.fs.Changed("tries") && k.tries < 1 {
		return usagef("1 asks once", "--tries %d", k.tries)
	}
	if k.fs.Changed("keyfile-size") && k.size.bytes == 0 {
		return usagef("leave it away to read the whole file", "--keyfile-size 0 reads nothing")
	}
	if k.fs.Changed("passphrase-fd") && k.passphraseFD < 0 {
		return usagef("such as --passphrase-fd 3, with the shell's 3<FILE", "--passphrase-fd %d is not a file descriptor", k.passphraseFD)
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
	if k.fs.Changed("passphrase-fd") && k.passphraseFD == 0 {
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

// read gets the passphrase; what names it in a prompt, and again asks twice.
func (k *keyFlags) read(a *app, what string, again bool) (*key, error) {
	switch {
	case k.fs.Changed("key-file"):
		return k.readKeyFile(a)
	case k.fs.Changed("passphrase-file"):
		return readPassphraseFile(a, k.passphraseFile)
	case k.fs.Changed("passphrase-fd"):
		f := os.NewFile(uintptr(k.passphraseFD), "passphrase-fd")
		if f == nil {
			return nil, usagef("", "--passphrase-fd %d is not a file descriptor", k.passphraseFD)
		}
		if _, err := f.Stat(); err != nil {
			return nil, usagef(fmt.Sprintf("in a shell, open it with %d<FILE", k.passphraseFD), "--passphrase-fd %d: no file is open there", k.passphraseFD)
		}
		return passphraseFrom(f, fmt.Sprintf("file descriptor %d", k.passphraseFD))
	case again:
		buf, err := promptTwice(a, what)
		return &key{Buffer: buf}, err
	}
	buf, err := prompt(a, "Passphrase for "+what+": ")
	return &key{Buffer: buf}, err
}

func (k *keyFlags) readKeyFile(a *app) (*key, error) {
	what := "key file " + k.keyFile
	f, err := a.open(k.keyFile, &what)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, plainPathError(err))
	}
	defer closeQuietly(f)
	if n, err := skip(f, k.offset.bytes); errors.Is(err, io.EOF) {
		return nil, usagef("", "%s has %d bytes, --keyfile-offset %d lies behind its end", what, n, k.offset.bytes)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", what, plainPathError(err))
	}
	limit, want := int64(maxKeyFile), k.size.bytes
	if want > maxKeyFile {
		return nil, usagef("", "--keyfile-size %d is more than 8 MiB", want)
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
		return nil, usagef("is it the right file? --keyfile-size N uses its first N bytes", "%s is longer than 8 MiB", what)
	}
	if n := int64(buf.Len()); n < want {
		buf.Destroy()
		return nil, usagef("is it the right file, and whole?", "%s is too short: %d bytes after the offset, --keyfile-size asks for %d", what, n, want)
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

// open opens a file, or standard input for "-", which what then says.
func (a *app) open(name string, what *string) (io.ReadCloser, error) {
	if name == stdinName {
		*what += " (standard input)"
		return io.NopCloser(interruptible{a.ctx, a.io.in}), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		closeQuietly(f)
		return nil, errIsDir
	}
	return f, nil
}

// skip passes over n bytes; io.EOF says that there are fewer, and how many.
func skip(r io.Reader, n int64) (int64, error) {
	if n == 0 {
		return 0, nil
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
