package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// replaceFile has write write a file, which takes the place of the one at path when it is complete. Until
// then, and if write fails, that one stays as it is. Something else than a file, such as a pipe, is
// written directly.
func replaceFile(path string, write func(io.Writer) error) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	mode := os.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		if mode = info.Mode(); !mode.IsRegular() {
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			return errors.Join(write(file), file.Close())
		}
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if err := errors.Join(write(file), file.Chmod(mode.Perm()), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
