package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	sumsFile = "SHA256SUMS"
	signer   = "release@gabion"
)

// sum writes the sums of all files of a folder, in the form of sha256sum.
func sum(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(data), f.Name())
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), []byte(lines.String()), 0o644)
}

// signed signs the sums and verifies them with the commands that docs/install.md gives to users. Without
// a key it makes one that is thrown away.
func (a assets) signed() error {
	key, signers := a.key, a.signers
	if key == "" {
		key, signers = filepath.Join(a.dir, "key"), filepath.Join(a.dir, "release-signers")
		if err := throwaway(key, signers); err != nil {
			return err
		}
	}
	if _, err := command(a.out, nil, "ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", key, sumsFile); err != nil {
		return err
	}
	page, err := os.ReadFile(filepath.Join(a.src, "docs", "install.md"))
	if err != nil {
		return err
	}
	if err := verify(string(page), a.out, signers); err != nil {
		return fmt.Errorf("a user could not verify the release: %w", err)
	}
	if a.key == "" {
		fmt.Fprintln(a.proof.out, "  signed with a key that was made for this run: verified, and the signature removed")
		return os.Remove(filepath.Join(a.out, sumsFile+".sig"))
	}
	return nil
}

// throwaway makes a key and the list that names it.
func throwaway(key, signers string) error {
	if _, err := command(".", nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", signer, "-f", key); err != nil {
		return err
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		return err
	}
	return os.WriteFile(signers, []byte(signer+` namespaces="file" `+string(public)), 0o644)
}

// documented finds the commands between two marks of the page for users.
var documented = regexp.MustCompile("(?s)<!-- verify -->\n```sh\n(.*?)```\n<!-- /verify -->")

// verify runs the commands of the page in a folder of downloads.
func verify(page, dir, signers string) error {
	found := documented.FindStringSubmatch(page)
	if found == nil {
		return errors.New("docs/install.md has no commands between <!-- verify --> and <!-- /verify -->")
	}
	list, err := os.ReadFile(signers)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, "release-signers")
	if err := os.WriteFile(name, list, 0o644); err != nil {
		return err
	}
	defer os.Remove(name)
	cmd := exec.Command("sh", "-e", "-c", found[1])
	cmd.Dir = dir
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	return nil
}
