package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CreateOptions says how Dir.Create makes a file.
type CreateOptions struct {
	// Size is the file's size in bytes. -1 makes an empty file that grows as
	// it is written (FileOptions.Grow).
	Size int64
	// Mode is the permission, less the umask. 0 means 0600.
	Mode fs.FileMode
	// Sparse leaves the space unallocated, so that what is never written stays
	// a hole. Otherwise the space is reserved where the file system can, and
	// want of space shows at once.
	Sparse bool
}

// Dir is a folder in which files are created and published. Names are base
// names. Safe for concurrent use. Tests wrap it in a RecordDir.
type Dir interface {
	// Create makes a new file, open for reading and writing, that reads as
	// zeros. A name that is taken gives an error that is fs.ErrExist.
	Create(name string, o CreateOptions) (Device, error)
	// Exists reports whether the name is taken, be it by a dangling symlink.
	Exists(name string) (bool, error)
	// Rename gives the file oldName the name newName in one step. Unless
	// replace is set, a newName that is taken gives an error that is
	// fs.ErrExist, and nothing changes.
	Rename(oldName, newName string, replace bool) error
	// Remove removes the name.
	Remove(name string) error
	// Sync makes the creations, renames and removals so far durable.
	Sync() error
	// Close releases the folder, but no file of it.
	Close() error
}

// osDir is a folder of the system. It stays the same folder when its path
// comes to mean another.
type osDir struct {
	root   *os.Root
	folder *os.File // the same folder: package os syncs files only
	path   string
	direct bool
}

// OSDir opens the folder path. Of o, Direct applies to the files created.
func OSDir(path string, o FileOptions) (Dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, ioError("open folder", path, -1, err)
	}
	folder, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(ioError("open folder", path, -1, err), root.Close())
	}
	return &osDir{root, folder, path, o.Direct}, nil
}

// checkName keeps names inside the folder.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || filepath.Base(name) != name {
		return fmt.Errorf("file name %q: %w", name, fs.ErrInvalid)
	}
	return nil
}

// Create implements Dir.
func (d *osDir) Create(name string, o CreateOptions) (_ Device, err error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	mode := o.Mode
	if mode == 0 {
		mode = 0o600
	}
	path := filepath.Join(d.path, name)
	fo := FileOptions{Direct: d.direct, Grow: o.Size < 0}
	created := false
	f, err := openFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fo, func(flags int) (*os.File, error) {
		f, err := d.root.OpenFile(name, flags|largeFlag, mode)
		created = created || err == nil
		return f, err
	})
	if err == nil && o.Size > 0 {
		err = f.allocate(o.Size, o.Sparse)
	}
	if err == nil {
		return f, nil
	}
	if f != nil {
		err = errors.Join(err, f.Close())
	}
	if created {
		err = errors.Join(err, d.Remove(name))
	}
	return nil, err
}

// allocate gives a new file its size.
func (f *File) allocate(size int64, sparse bool) error {
	var err error
	if sparse {
		if err = prepareSparse(f.f); err == nil {
			err = f.f.Truncate(size)
		}
	} else {
		err = preallocate(f.f, size)
	}
	if err != nil {
		return ioError(fmt.Sprintf("reserve %d bytes for", size), f.name, -1, err)
	}
	f.size.Store(size)
	return nil
}

// Exists implements Dir.
func (d *osDir) Exists(name string) (bool, error) {
	if err := checkName(name); err != nil {
		return false, err
	}
	_, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, d.wrap("look for", name, err)
}

// Rename implements Dir.
func (d *osDir) Rename(oldName, newName string, replace bool) error {
	if err := errors.Join(checkName(oldName), checkName(newName)); err != nil {
		return err
	}
	if replace {
		return d.wrap("rename "+oldName+" to", newName, d.root.Rename(oldName, newName))
	}
	err := renameNew(d.folder, oldName, newName)
	if errors.Is(err, errors.ErrUnsupported) {
		err = d.renameByLink(oldName, newName)
	}
	return d.wrap("rename "+oldName+" to", newName, err)
}

// renameByLink is for systems and file systems that cannot rename on the
// condition that the new name is free: a hard link is as strict. Where there
// are no hard links either, looking before renaming has to do, and a file
// that appears between the two is lost.
func (d *osDir) renameByLink(oldName, newName string) error {
	err := d.root.Link(oldName, newName)
	if err == nil {
		return d.root.Remove(oldName)
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	taken, err := d.Exists(newName)
	if err != nil {
		return err
	}
	if taken {
		return fs.ErrExist
	}
	return d.root.Rename(oldName, newName)
}

// Remove implements Dir.
func (d *osDir) Remove(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	return d.wrap("remove", name, d.root.Remove(name))
}

// Sync implements Dir.
func (d *osDir) Sync() error { return ioError("sync folder", d.path, -1, syncFolder(d.folder)) }

// Close implements Dir.
func (d *osDir) Close() error { return errors.Join(d.folder.Close(), d.root.Close()) }

func (d *osDir) wrap(op, name string, err error) error {
	return ioError(op, filepath.Join(d.path, name), -1, err)
}
