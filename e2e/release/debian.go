package main

import (
	"bytes"
	"compress/gzip"
	"crypto/md5" // dpkg's list of sums is MD5's; SHA256SUMS is what is signed
	"fmt"
	"strings"
	"time"
)

// debVersion is a version as Debian orders it: a suffix such as -rc.1 comes before the version without.
func debVersion(version string) string {
	return strings.Replace(strings.TrimPrefix(version, "v"), "-", "~", 1)
}

func debName(t target, version string) string {
	return "gabion_" + debVersion(version) + "_" + t.processor + ".deb"
}

// places says where the files that all targets share are in a Debian package. README.md and PowerShell's
// completions are not in it.
var places = map[string]string{
	"LICENSE":                 "./usr/share/doc/gabion/copyright",
	"gabion.1":                "./usr/share/man/man1/gabion.1.gz",
	"completions/gabion.bash": "./usr/share/bash-completion/completions/gabion",
	"completions/gabion.fish": "./usr/share/fish/vendor_completions.d/gabion.fish",
	"completions/_gabion":     "./usr/share/zsh/vendor-completions/_gabion",
}

// debian makes a package: an ar archive of a version, what dpkg has to know, and the files. It needs
// no dpkg-deb, so that a release can be made on any system.
func debian(t target, version string, binary entry, shared []entry, when time.Time) ([]byte, error) {
	files := []entry{{"./usr/bin/gabion", binary.data, 0o755}}
	for _, f := range shared {
		place := places[f.name]
		if place == "" {
			continue
		}
		if strings.HasSuffix(place, ".gz") {
			packed, err := gzipped(f.data)
			if err != nil {
				return nil, err
			}
			f.data = packed
		}
		files = append(files, entry{place, f.data, 0o644})
	}
	var sums strings.Builder
	size := 0
	for _, f := range files {
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.data), strings.TrimPrefix(f.name, "./"))
		size += len(f.data)
	}
	control := fmt.Sprintf(`Package: gabion
Version: %s
Architecture: %s
Maintainer: The gabion authors <release@gabion.invalid>
Installed-Size: %d
Section: devel
Priority: optional
Homepage: https://%s
Description: checks, simulates and watches policies for calls that fail
 gabion is the command of the Go library of the same name. It finds mistakes
 in policy files, says what a policy will do in trouble, plays it in
 simulated outages, and reads what was recorded.
`, debVersion(version), t.processor, (size+1023)/1024, prefix)
	head, err := tarred([]entry{{"./control", []byte(control), 0o644}, {"./md5sums", []byte(sums.String()), 0o644}}, when)
	if err != nil {
		return nil, err
	}
	body, err := tarred(files, when)
	if err != nil {
		return nil, err
	}
	var deb bytes.Buffer
	deb.WriteString("!<arch>\n")
	for _, member := range []entry{{"debian-binary", []byte("2.0\n"), 0}, {"control.tar.gz", head, 0}, {"data.tar.gz", body, 0}} {
		fmt.Fprintf(&deb, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", member.name, when.Unix(), 0, 0, 0o100644, len(member.data))
		deb.Write(member.data)
		if len(member.data)%2 == 1 {
			deb.WriteByte('\n')
		}
	}
	return deb.Bytes(), nil
}

func gzipped(data []byte) ([]byte, error) {
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	err = z.Close()
	return buf.Bytes(), err
}
