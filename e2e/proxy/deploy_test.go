package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/testservers"
)

const deploy = "../../deploy/"

// A deployment is deploy/proxy/gabion.yaml with addresses that are free here, before a server that is here.
type deployment struct {
	file       string // the text
	llm, admin string // addresses
}

func deployed(t *testing.T) deployment {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) }))
	t.Cleanup(server.Close)
	at := addresses(t, 4)
	return deployment{file: strings.NewReplacer("127.0.0.1:9001", at[0], "127.0.0.1:9000", at[1], "127.0.0.1:9002", at[2], "127.0.0.1:9900", at[3],
		"https://api.openai.com", server.URL).Replace(text(t, "proxy/gabion.yaml")), llm: at[0], admin: at[3]}
}

func text(t *testing.T, name string) string {
	t.Helper()
	all, err := os.ReadFile(deploy + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// drains is how long a proxy with the file may take to end.
func (d deployment) drains(t *testing.T) time.Duration {
	t.Helper()
	file, err := config.Parse("gabion.yaml", []byte(d.file))
	if err != nil {
		t.Fatal(err)
	}
	return file.Proxy.Drain + file.Proxy.DrainDelay
}

// get asks for a path at an address, and returns 0 where no answer comes.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(all)
}

// image is a directory with what deploy/Containerfile puts into an image from scratch, and the files in
// /etc/gabion. It returns the start of the command that runs a program as a container would, but for its network.
func image(t *testing.T, file string) (dir string, argv []string) {
	t.Helper()
	if _, err := exec.LookPath("chroot"); err != nil || os.Getuid() != 0 {
		testservers.Missing(t, "chroot is not installed, or this is not root: the image can't be played")
	}
	command, err := gabion()
	if err != nil {
		t.Fatal(err)
	}
	container := text(t, "Containerfile")
	user := regexp.MustCompile(`(?m)^USER (\S+)$`).FindStringSubmatch(container)
	entry := regexp.MustCompile(`(?m)^ENTRYPOINT \["(\S+)"\]$`).FindStringSubmatch(container)
	if user == nil || entry == nil || !strings.Contains(container, "\nFROM scratch\n") {
		t.Fatal("deploy/Containerfile is of another kind")
	}
	dir = t.TempDir()
	binary, err := os.ReadFile(command)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]struct {
		data []byte
		mode os.FileMode
	}{entry[1]: {binary, 0o755}, "etc/gabion/gabion.yaml": {[]byte(file), 0o644}} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.data, f.mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir, []string{"chroot", "--userspec=" + user[1], dir, entry[1]}
}

// The unit: systemd finds nothing wrong with it, and its commands do what systemd asks of them. No test can
// start it: that takes a systemd that runs the machine.
func TestTheUnitOfSystemd(t *testing.T) {
	long(t, "the proxy starts and ends")
	command, err := gabion()
	if err != nil {
		t.Fatal(err)
	}
	d, file := deployed(t), filepath.Join(t.TempDir(), "gabion.yaml")
	write(t, file, d.file)
	text := strings.NewReplacer("/usr/bin/gabion", command, "/etc/gabion/gabion.yaml", file).Replace(text(t, "proxy/gabion-proxy.service"))
	unit := filepath.Join(t.TempDir(), "gabion-proxy.service")
	write(t, unit, text)
	if _, err := exec.LookPath("systemd-analyze"); err == nil {
		if out, err := exec.Command("systemd-analyze", "verify", unit).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v\n%s", err, out)
		}
	} else {
		t.Log("systemd-analyze is not installed: the unit was not verified")
	}
	of := func(key string) []string {
		_, line, ok := strings.Cut(text, "\n"+key+"=")
		if !ok {
			t.Fatalf("the unit has no %s", key)
		}
		line, _, _ = strings.Cut(line, "\n")
		return strings.Fields(line)
	}
	pre := of("ExecStartPre")
	if out, err := exec.Command(pre[0], pre[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	p := run(t, d.admin, nil, of("ExecStart")...)
	_, before := get(t, "http://"+d.admin+"/config")
	write(t, file, strings.Replace(d.file, "preset: llm", "preset: llm\n    retry: {attempts: 2}", 1))
	reload := of("ExecReload")
	if out, err := exec.Command(reload[0], slices.Concat(reload[1:len(reload)-1], []string{fmt.Sprint(p.cmd.Process.Pid)})...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for until, after := time.Now().Add(10*time.Second), before; after == before; time.Sleep(20 * time.Millisecond) {
		if _, after = get(t, "http://"+d.admin+"/config"); time.Now().After(until) {
			t.Fatal("the changed file is not in force after SIGHUP")
		}
	}
	limit, err := time.ParseDuration(of("TimeoutStopSec")[0] + "s")
	if err != nil || limit <= d.drains(t) {
		t.Errorf("systemd kills it after %v, %v; it may take %v", limit, err, d.drains(t))
	}
	if code := p.stop(limit); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// What deploy/proxy/sidecar.yaml uses of a pod, in Kubernetes' own words. A key that is not here is
// a mistake, or belongs here.
type (
	pod struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			TerminationGracePeriodSeconds int
			InitContainers, Containers    []container
			Volumes                       []struct {
				Name      string
				ConfigMap struct{ Name string }
			}
		}
	}
	container struct {
		Name, Image, RestartPolicy string
		Args                       []string
		Ports                      []struct {
			Name          string
			ContainerPort int
		}
		StartupProbe, ReadinessProbe, LivenessProbe *probe
		Resources                                   struct{ Requests, Limits map[string]string }
		Env                                         []struct{ Name, Value string }
		VolumeMounts                                []struct{ Name, MountPath string }
	}
	probe struct {
		HTTPGet                         struct{ Path, Port string }
		PeriodSeconds, FailureThreshold int
	}
)

// The sidecar, played as the kubelet does: its very command in its very image, its very probes; the
// program starts once the first is answered, ends first, and calls out while it ends.
func TestTheSidecarOutlivesItsProgram(t *testing.T) {
	long(t, "the proxy starts and ends")
	var pod pod
	if err := yaml.UnmarshalStrict([]byte(text(t, "proxy/sidecar.yaml")), &pod, yaml.DisallowUnknownFields); err != nil {
		t.Fatal(err)
	}
	side, shop := pod.Spec.InitContainers[0], pod.Spec.Containers[0]
	if side.RestartPolicy != "Always" || side.Ports[0].ContainerPort != 9900 || side.VolumeMounts[0].Name != pod.Spec.Volumes[0].Name {
		t.Errorf("it is no native sidecar, or does not fit together: %+v", side)
	}
	d := deployed(t)
	d.file = strings.Replace(d.file, "address: \""+d.admin, "address: \"0.0.0.0"+strings.TrimPrefix(d.admin, "127.0.0.1"), 1)
	if !strings.Contains(d.file, "0.0.0.0:") {
		t.Fatal("no admin address in the file")
	}
	_, argv := image(t, d.file)
	p := run(t, "", nil, append(argv, side.Args...)...)
	probed := func(probe *probe) (status int) {
		if probe == nil || probe.HTTPGet.Port != side.Ports[0].Name {
			t.Fatalf("%+v asks at no port of %+v", probe, side.Ports)
		}
		status, _ = get(t, "http://"+d.admin+probe.HTTPGet.Path)
		return status
	}
	until := time.Now().Add(time.Duration(side.StartupProbe.PeriodSeconds*side.StartupProbe.FailureThreshold) * time.Second)
	for probed(side.StartupProbe) != http.StatusOK {
		if time.Now().After(until) {
			t.Fatal("the startup probe fails")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if ready, live := probed(side.ReadinessProbe), probed(side.LivenessProbe); ready != http.StatusOK || live != http.StatusOK {
		t.Errorf("ready %d, live %d", ready, live)
	}
	program(t, shop.Env[0].Value, "127.0.0.1:9001", d.llm)
	grace := time.Duration(pod.Spec.TerminationGracePeriodSeconds) * time.Second
	if grace <= d.drains(t) {
		t.Errorf("the kubelet kills it after %v; it may take %v", grace, d.drains(t))
	}
	if code := p.stop(grace); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// program starts a program that calls out while it ends, and ends it.
func program(t *testing.T, url, from, to string) {
	t.Helper()
	if !strings.Contains(url, from) {
		t.Errorf("the program goes to %s, not to the proxy", url)
	}
	at := addresses(t, 1)[0]
	p := run(t, at, []string{roleEnv + "=caller"}, os.Args[0], at, strings.Replace(url, from, to, 1)+"/models")
	if code := p.stop(10 * time.Second); code != 0 {
		t.Error("the program got no answer while it ended")
	}
}

// What deploy/proxy/compose.yaml uses, in Compose's own words.
type compose struct {
	Services map[string]struct {
		Image, Restart   string
		Command, Volumes []string
		DependsOn        []string          `json:"depends_on"`
		StopGracePeriod  string            `json:"stop_grace_period"`
		Environment      map[string]string `json:"environment"`
	}
}

// Compose, played: what the program depends on starts first and stops last.
func TestComposeFile(t *testing.T) {
	long(t, "the proxy starts and ends")
	var file compose
	if err := yaml.UnmarshalStrict([]byte(text(t, "proxy/compose.yaml")), &file, yaml.DisallowUnknownFields); err != nil {
		t.Fatal(err)
	}
	proxy, shop := file.Services["gabion"], file.Services["shop"]
	if !slices.Equal(shop.DependsOn, []string{"gabion"}) || len(proxy.DependsOn) > 0 || len(file.Services) != 2 {
		t.Errorf("the program does not depend on the proxy: %+v", file)
	}
	d := deployed(t)
	d.file = strings.Replace(d.file, d.llm, "0.0.0.0"+strings.TrimPrefix(d.llm, "127.0.0.1"), 1)
	_, argv := image(t, d.file)
	p := run(t, d.llm, nil, append(argv, proxy.Command...)...)
	program(t, shop.Environment["OPENAI_BASE_URL"], "gabion:9001", d.llm)
	grace, err := time.ParseDuration(proxy.StopGracePeriod)
	if err != nil || grace <= d.drains(t) {
		t.Errorf("Compose kills it after %v, %v; it may take %v", grace, err, d.drains(t))
	}
	if code := p.stop(grace); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Beside the proxy, nothing is in the image, and it is nobody's process: a store of keys needs a folder that it may write.
func TestTheImageHasNothingElse(t *testing.T) {
	long(t, "the proxy is built")
	dir, argv := image(t, "version: 1\nproxy: {listen: [{address: 127.0.0.1:0, ingress: {to: \"http://127.0.0.1:1\", idempotency: {store: \"bolt:/keys.db\", routes: [POST /]}}}]}\n")
	out, err := exec.Command(argv[0], append(argv[1:], "proxy", "/etc/gabion/gabion.yaml")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "/keys.db") || !strings.Contains(string(out), "permission denied") {
		t.Errorf("%v\n%s", err, out)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}
