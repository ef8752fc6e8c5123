package proxycmd

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
)

// letGo gives back the memory that only the start has used: what is free of the heap, and pages of the program's own file. A program of this
// size runs code of all its packages once, and the kernel maps 64 KiB around each page of it, which then count as the process's memory.
// What is used again is mapped again.
func letGo() {
	debug.FreeOSMemory()
	own, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	for _, m := range unchanged(maps, own) {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED)
	}
}

// mapping is a part of the address space.
type mapping struct{ from, to uintptr }

// unchanged finds in the form of /proc/PID/smaps the mappings of a file that can only be read and are as the file is. A debugger's breakpoint or a probe
// of the kernel in one of them is in memory alone, and would be lost.
func unchanged(smaps io.Reader, file string) (all []mapping) {
	var m mapping
	ours := false
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		line := lines.Text()
		var next mapping
		var may, offset, device, inode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s %s %s %s", &next.from, &next.to, &may, &offset, &device, &inode); n == 6 {
			_, path, _ := strings.Cut(line, " "+inode+" ")
			m, ours = next, strings.TrimLeft(path, " ") == file && (may == "r-xp" || may == "r--p")
			continue
		}
		if name, size, _ := strings.Cut(line, ":"); ours && name == "Anonymous" && strings.TrimSpace(size) == "0 kB" {
			all = append(all, m)
		}
	}
	return all
}
