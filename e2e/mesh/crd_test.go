package mesh

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

// definition is a CustomResourceDefinition, as far as it says what objects may hold.
type definition struct {
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Kind string `json:"kind"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Schema struct {
				OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// schemas are the schemas that a cluster has of the objects that are written, by apiVersion and kind. They come
// from the modules whose types are used above.
var schemas = sync.OnceValues(func() (map[string]map[string]any, error) {
	all := map[string]map[string]any{}
	for module, pattern := range map[string]string{
		"istio.io/api": "kubernetes/customresourcedefinitions.gen.yaml", "sigs.k8s.io/gateway-api": "config/crd/experimental/gateway.networking.*_*.yaml",
		"github.com/dapr/dapr": "charts/dapr/crds/resiliency.yaml",
	} {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			return nil, fmt.Errorf("where is %s: %w", module, err)
		}
		paths, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), filepath.FromSlash(pattern)))
		if err != nil || len(paths) == 0 {
			return nil, errors.Join(fmt.Errorf("%s has no %s", module, pattern), err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			for part := range strings.SplitSeq(string(text), "\n---\n") {
				if !slices.ContainsFunc([]string{"kind: VirtualService\n", "kind: DestinationRule\n", "kind: HTTPRoute\n", "kind: XBackendTrafficPolicy\n", "kind: Resiliency\n"}, func(s string) bool { return strings.Contains(part, s) }) {
					continue
				}
				var d definition
				if err := yaml.Unmarshal([]byte(part), &d); err != nil {
					return nil, err
				}
				for _, v := range d.Spec.Versions {
					all[d.Spec.Group+"/"+v.Name+" "+d.Spec.Names.Kind] = v.Schema.OpenAPIV3Schema
				}
			}
		}
	}
	return all, nil
})

// admitted is what a cluster finds wrong with an object: by its schema, by keys that this drops, and by rules in CEL.
func admitted(t *testing.T, data []byte) (wrong []string) {
	t.Helper()
	all, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	var o object
	var v any
	if err := errors.Join(json.Unmarshal(data, &o), json.Unmarshal(data, &v)); err != nil {
		t.Fatal(err)
	}
	tree := all[o.APIVersion+" "+o.Kind]
	if tree == nil {
		t.Fatalf("there is no schema of %s %s", o.APIVersion, o.Kind)
	}
	var schema spec.Schema
	text, err := json.Marshal(tree)
	if err == nil {
		err = json.Unmarshal(text, &schema)
	}
	if err != nil {
		t.Fatal(err)
	}
	v = defaulted(tree, v)
	for _, err := range validate.NewSchemaValidator(&schema, nil, "", strfmt.Default).Validate(v).Errors {
		wrong = append(wrong, err.Error())
	}
	j := &judge{t: t}
	if o, ok := v.(map[string]any); ok { // every object has them, whatever its schema says
		delete(o, "apiVersion")
		delete(o, "kind")
		delete(o, "metadata")
	}
	j.value(tree, whole(v), strings.ToLower(o.Kind))
	return append(wrong, j.wrong...)
}

// defaulted adds what the schema says where an object says nothing, as a cluster does before it judges.
func defaulted(schema map[string]any, v any) any {
	switch v := v.(type) {
	case map[string]any:
		keys, _ := schema["properties"].(map[string]any)
		for key, of := range keys {
			of, _ := of.(map[string]any)
			if usual, ok := of["default"]; ok && v[key] == nil {
				v[key] = usual
			}
			if v[key] != nil {
				v[key] = defaulted(of, v[key])
			}
		}
	case []any:
		of, _ := schema["items"].(map[string]any)
		for i := range v {
			v[i] = defaulted(of, v[i])
		}
	}
	return v
}

// whole makes whole numbers of those that have no fraction, as CEL's rules want them.
func whole(v any) any {
	switch v := v.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case map[string]any:
		for key := range v {
			v[key] = whole(v[key])
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	}
	return v
}

// judge walks an object and its schema.
type judge struct {
	t     *testing.T
	wrong []string
}

func (j *judge) value(schema map[string]any, v any, path string) {
	rules, _ := schema["x-kubernetes-validations"].([]any)
	for _, r := range rules {
		if r, ok := r.(map[string]any); ok {
			j.rule(r, v, path)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		keys, _ := schema["properties"].(map[string]any)
		others, _ := schema["additionalProperties"].(map[string]any)
		for key, below := range v {
			switch of, ok := keys[key].(map[string]any); {
			case ok:
				j.value(of, below, path+"."+key)
			case others != nil:
				j.value(others, below, path+"."+key)
			case schema["x-kubernetes-preserve-unknown-fields"] == nil:
				j.wrong = append(j.wrong, path+"."+key+" is dropped: the schema has no such key")
			}
		}
	case []any:
		of, _ := schema["items"].(map[string]any)
		for i, below := range v {
			j.value(of, below, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

// rule judges by one rule. Those about changes of an object have nothing to say of a new one.
func (j *judge) rule(r map[string]any, v any, path string) {
	text, _ := r["rule"].(string)
	if strings.Contains(text, "oldSelf") {
		return
	}
	env, err := cel.NewEnv(cel.Variable("self", cel.DynType), cel.CrossTypeNumericComparisons(true), cel.OptionalTypes())
	if err != nil {
		j.t.Fatal(err)
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		j.t.Fatalf("%s: %s: %v", path, text, issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		j.t.Fatal(err)
	}
	out, _, err := program.Eval(map[string]any{"self": v})
	if err != nil || out.Value() != true {
		j.wrong = append(j.wrong, fmt.Sprintf("%s: %s: %v %v", path, text, r["message"], err))
	}
}

// A cluster takes what is written, as it is.
func TestClustersAdmitExports(t *testing.T) {
	for _, format := range []string{"istio", "gateway-api", "dapr"} {
		each(t, format, func(t *testing.T, data []byte) {
			for _, wrong := range admitted(t, data) {
				t.Errorf("%s\n%s", wrong, data)
			}
		})
	}
}

// What a cluster refuses or drops is found, each in its own way.
func TestClustersRefuse(t *testing.T) {
	const vs = `{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": {"name": "a"}, "spec": {"hosts": ["a"], "http": [%s]}}`
	const dapr = `{"apiVersion": "dapr.io/v1alpha1", "kind": "Resiliency", "metadata": {"name": "a"}, "spec": %s}`
	const route = `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "a"}, "spec": {"rules": [%s]}}`
	for text, want := range map[string]string{
		fmt.Sprintf(vs, `{"timeout": "10us"}`):                                                    "greater than 1ms",
		fmt.Sprintf(vs, `{"retries": {"attempts": "3"}}`):                                         "must be of type integer",
		fmt.Sprintf(vs, `{"retries": {"attempts": 3, "budget": 1}}`):                              "dropped",
		fmt.Sprintf(route, `{"timeouts": {"request": "1.5s"}}`):                                   "should match",
		fmt.Sprintf(route, `{"timeouts": {"request": "1s", "backendRequest": "2s"}}`):             "backendRequest timeout cannot be longer",
		fmt.Sprintf(dapr, `{"policies": {"retries": {"a": {"maxRetries": "3"}}}, "targets": {}}`): "must be of type integer",
		fmt.Sprintf(dapr, `{"policies": {"retries": {"a": {"budget": 3}}}, "targets": {}}`):       "dropped",
		fmt.Sprintf(dapr, `{"policies": {}}`):                                                     "spec.targets in body is required",
		fmt.Sprintf(route, `{"retry": {"codes": [200]}}`):                                         "greater than or equal to 400",
	} {
		if wrong := admitted(t, []byte(text)); !strings.Contains(strings.Join(wrong, "\n"), want) {
			t.Errorf("%s: %q, want %s", text, wrong, want)
		}
	}
}
