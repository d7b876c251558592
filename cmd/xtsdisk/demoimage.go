package main

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
)

// demoFilesystem is an ext4 filesystem of 4 MiB with a few files in it; see
// _demo/make.sh.
//
//go:embed demo.ext4.gz
var demoFilesystem []byte

const (
	demoFilesystemSize = 4 << 20
	demoChunk          = 1 << 20
	bugHint            = "this is a bug: please report it"
	// demoSecret is in a line of one of the files in it.
	demoSecret = "buried under the third oak"
)

// writeDemoImage writes size bytes, a multiple of demoChunk and at least the
// filesystem's size: the filesystem, and behind it noise. Zeros or holes there
// would be skipped or compressed by what is measured, and flatter it. The noise
// is the same each time.
func writeDemoImage(ctx context.Context, w io.Writer, size int64) error {
	zr, err := gzip.NewReader(bytes.NewReader(demoFilesystem))
	if err != nil {
		return fmt.Errorf("the filesystem in the program: %w", err)
	}
	fs, err := io.ReadAll(io.LimitReader(zr, demoFilesystemSize+1))
	if err != nil || len(fs) != demoFilesystemSize {
		return fmt.Errorf("the filesystem in the program: %d bytes, %w", len(fs), err)
	}
	if _, err := w.Write(fs); err != nil {
		return err
	}
	noise := rand.NewChaCha8([32]byte{'x', 't', 's', 'd', 'i', 's', 'k'})
	chunk := make([]byte, demoChunk)
	for n := int64(demoFilesystemSize); n < size; n += demoChunk {
		if ctx.Err() != nil {
			return cancelCause(ctx)
		}
		_, _ = noise.Read(chunk) // never fails
		if _, err := w.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// plainCopy copies a file by reads and writes of 1 MiB, as cp does where it
// cannot share blocks: what encrypting is measured against.
func plainCopy(ctx context.Context, src, dst string) (err error) {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer closeQuietly(in)
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if e := out.Close(); err == nil {
			err = e
		}
	}()
	chunk := make([]byte, demoChunk)
	for ctx.Err() == nil {
		n, err := in.Read(chunk)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := out.Write(chunk[:n]); err != nil {
			return err
		}
	}
	return cancelCause(ctx)
}

// compareFiles returns nil if two files have the same bytes, and where they
// differ otherwise.
func compareFiles(ctx context.Context, a, b string) error {
	f, err := os.Open(a)
	if err != nil {
		return err
	}
	defer closeQuietly(f)
	g, err := os.Open(b)
	if err != nil {
		return err
	}
	defer closeQuietly(g)
	p, q := make([]byte, demoChunk), make([]byte, demoChunk)
	for off := int64(0); ctx.Err() == nil; {
		n, err1 := io.ReadFull(f, p)
		m, err2 := io.ReadFull(g, q)
		if n != m || !bytes.Equal(p[:n], q[:m]) {
			return &failure{exitDamaged, fmt.Errorf("the decrypted image differs from the original after byte %d", off), bugHint}
		}
		if err1 == io.EOF || err1 == io.ErrUnexpectedEOF {
			return nil
		}
		if err1 != nil || err2 != nil {
			return firstError(err1, err2)
		}
		off += int64(n)
	}
	return cancelCause(ctx)
}

// findText returns the offset of text in a file, -1 if it is not there.
func findText(ctx context.Context, name, text string) (int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer closeQuietly(f)
	chunk := make([]byte, demoChunk)
	kept := 0 // of the last chunk, at the start of this one
	for off := int64(0); ctx.Err() == nil; {
		n, err := io.ReadFull(f, chunk[kept:])
		if i := bytes.Index(chunk[:kept+n], []byte(text)); i >= 0 {
			return off - int64(kept) + int64(i), nil
		}
		if err != nil {
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return -1, nil
			}
			return 0, err
		}
		off += int64(n)
		kept = copy(chunk, chunk[kept+n-len(text)+1:])
	}
	return 0, cancelCause(ctx)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
