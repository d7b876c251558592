//go:build !linux

package luks

import "github.com/xtsdisk/xtsdisk/internal/secret"

func keyringSupported() error {
	return unsupported("token type %s: a keyring of Linux", quote(TokenKeyring))
}

func readKeyring(string) (*secret.Buffer, error) { return nil, keyringSupported() }
