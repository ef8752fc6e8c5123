package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cost is what a process used, in microseconds of its processor time.
type cost struct {
	all, system float64
	switches    float64 // how often one of its threads had to wait, or was made to
}

// used is what the proxy and its children, such as nginx's workers, used since they began.
func (p *proxy) used() (all cost, err error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid))
	if err != nil {
		return all, err
	}
	pids := []string{fmt.Sprint(p.cmd.Process.Pid)}
	for _, name := range tasks {
		if text, err := os.ReadFile(name); err == nil {
			pids = append(pids, strings.Fields(string(text))...)
		}
	}
	for _, pid := range pids {
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			return all, err
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		var user, system float64
		if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
			return all, err
		}
		all.all += (user + system) * 10_000 // the kernel counts in hundredths
		all.system += system * 10_000
		threads, err := filepath.Glob("/proc/" + pid + "/task/*/status")
		if err != nil {
			return all, err
		}
		for _, name := range threads {
			all.switches += switched(name)
		}
	}
	return all, nil
}

// memory is the proxy's share of the machine's, in MiB, without its children. What can't be read is 0.
func (p *proxy) memory() (all float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.cmd.Process.Pid))
	if _, rest, ok := strings.Cut(string(text), "\nPss:"); ok {
		_, _ = fmt.Sscan(rest, &all)
	}
	return all / 1024
}

// switched is how often a thread was switched, which its status says in two lines.
func switched(status string) (n float64) {
	text, _ := os.ReadFile(status) // a thread that has just ended has no status
	for line := range strings.Lines(string(text)) {
		if name, count, _ := strings.Cut(strings.TrimSpace(line), ":"); strings.HasSuffix(name, "voluntary_ctxt_switches") {
			one, _ := strconv.ParseFloat(strings.TrimSpace(count), 64)
			n += one
		}
	}
	return n
}
