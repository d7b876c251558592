package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/spf13/pflag"
)

// readKey parses options as a verb would and reads the passphrase.
func readKey(t *testing.T, stdin io.Reader, args ...string) (*key, error) {
	t.Helper()
	a := &app{ctx: context.Background(), io: stdio{in: stdin, out: io.Discard, err: io.Discard}}
	var k keyFlags
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	k.register(fs, true)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := k.check(false); err != nil {
		return nil, err
	}
	return k.read(a, "vol", false)
}

func file(t *testing.T, contents string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte(contents), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPassphraseBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ contents, exact, passphrase string }{
		{"secret", "secret", "secret"},
		{"secret\n", "secret\n", "secret"},
		{"secret\n\n", "secret\n\n", "secret\n"},
		{"secret\r\n", "secret\r\n", "secret\r"},
		{"two\nlines\n", "two\nlines\n", "two\nlines"},
		{"\n", "\n", ""},
		{"", "", ""},
		{"\x00\xff\n", "\x00\xff\n", "\x00\xff"},
		{strings.Repeat("long ", 3000), strings.Repeat("long ", 3000), strings.Repeat("long ", 3000)},
	} {
		f := file(t, c.contents)
		for _, s := range []struct {
			want string
			args []string
		}{
			{c.exact, []string{"--key-file", f}},
			{c.exact, []string{"--key-file", "-"}},
			{c.passphrase, []string{"--passphrase-file", f}},
			{c.passphrase, []string{"--passphrase-file=-"}},
		} {
			// one byte at a time, as a slow pipe would give it
			k, err := readKey(t, iotest.OneByteReader(strings.NewReader(c.contents)), s.args...)
			if err != nil {
				t.Fatalf("%q %q: %v", c.contents, s.args, err)
			}
			if !bytes.Equal(k.Bytes(), []byte(s.want)) {
				t.Errorf("%q: %q gives %q, want %q", c.contents, s.args[0], k.Bytes(), s.want)
			}
			k.Destroy()
		}
	}
}

func TestKeyFileRange(t *testing.T) {
	t.Parallel()
	f := file(t, "0123456789")
	for _, c := range []struct{ offset, size, want string }{
		{"0", "10", "0123456789"}, {"3", "4", "3456"}, {"9", "1", "9"}, {"0", "1", "0"},
	} {
		k, err := readKey(t, nil, "-d", f, "--keyfile-offset", c.offset, "-l", c.size)
		if err != nil || string(k.Bytes()) != c.want {
			t.Errorf("offset %s, size %s: %q, %v, want %q", c.offset, c.size, k, err, c.want)
		}
	}
	far := filepath.Join(t.TempDir(), "far") // reading all of it would take days
	if err := os.WriteFile(far, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(far, 1<<42+5); err == nil {
		k, err := readKey(t, nil, "-d", far, "--keyfile-offset", "4T")
		if err != nil || !bytes.Equal(k.Bytes(), make([]byte, 5)) {
			t.Errorf("4 TiB inside a file: %v, %v", k, err)
		}
	}
	slow := iotest.OneByteReader(strings.NewReader("0123456789"))
	if k, err := readKey(t, slow, "-d", "-", "--keyfile-offset", "3", "-l", "4"); err != nil || string(k.Bytes()) != "3456" {
		t.Errorf("inside a stream: %v, %v", k, err)
	}
	k, err := readKey(t, nil, "-d", f, "--keyfile-offset", "10")
	if err != nil || k.Len() != 0 {
		t.Errorf("offset at the end: %v, %v, want an empty key, as cryptsetup has it", k, err)
	}
	for _, args := range [][]string{
		{"--keyfile-offset", "11"},
		{"--keyfile-offset", "8", "--keyfile-size", "3"},
		{"--keyfile-size", "11"},
		{"--keyfile-size", "9M"},
		{"--keyfile-size", "0"},
	} {
		_, err := readKey(t, nil, append(args, "--key-file", f)...)
		if codeOf(err, nil) != exitUsage {
			t.Errorf("%q: %v, want a usage error", args, err)
		}
	}
}

func TestKeyFileTooLong(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "f")
	for n, ok := range map[int64]bool{maxKeyFile: true, maxKeyFile + 1: false} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(name, n); err != nil {
			t.Fatal(err)
		}
		k, err := readKey(t, nil, "--key-file", name)
		if ok != (err == nil) || ok && int64(k.Len()) != n {
			t.Errorf("key file of %d bytes: %v", n, err)
		}
		if _, err := readKey(t, nil, "--passphrase-file", name); ok != (err == nil) {
			t.Errorf("passphrase file of %d bytes: %v", n, err)
		}
	}
	k, err := readKey(t, nil, "--key-file", name, "--keyfile-size", "32")
	if err != nil || k.Len() != 32 {
		t.Errorf("the first 32 bytes of a long file: %v", err)
	}
}

func TestKeySourcesContradict(t *testing.T) {
	t.Parallel()
	f := file(t, "x")
	for _, args := range [][]string{
		{"--key-file", f, "--passphrase-file", f},
		{"--key-file", f, "--passphrase-fd", "0"},
		{"--keyfile-offset", "1"},
		{"--keyfile-size", "1", "--passphrase-file", f},
		{"--passphrase-fd", "-1"},
		{"--tries", "0"},
	} {
		if _, err := readKey(t, nil, args...); codeOf(err, nil) != exitUsage {
			t.Errorf("%q: %v, want a usage error", args, err)
		}
	}
	var k keyFlags
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	k.register(fs, true)
	if err := fs.Parse([]string{"--key-file", "-"}); err != nil {
		t.Fatal(err)
	}
	if err := k.check(true); codeOf(err, nil) != exitUsage {
		t.Errorf("data and passphrase from stdin: %v", err)
	}
}

func TestKeyReadErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if _, err := readKey(t, iotest.ErrReader(broken), "--key-file", "-"); !errors.Is(err, broken) {
		t.Errorf("broken stdin: %v", err)
	}
	if _, err := readKey(t, nil, "--key-file", filepath.Join(t.TempDir(), "none")); codeOf(err, nil) != exitIO {
		t.Errorf("missing key file: %v", err)
	}
	if _, err := readKey(t, nil, "--key-file", t.TempDir()); codeOf(err, nil) != exitUsage {
		t.Errorf("folder as key file: %v", err)
	}
	if _, err := readKey(t, nil, "--passphrase-fd", "987"); codeOf(err, nil) != exitUsage {
		t.Errorf("closed descriptor: %v", err)
	}
}
