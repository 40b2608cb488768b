// Writes random objects of the built-in kinds as Kubernetes itself encodes them, one JSON line each:
// the kind, the protobuf body in base64, and the same object in JSON. How protobuf.jsonl.gz was made:
//
//	go mod tidy && go run . 3 0.5 | gzip -9n > protobuf.jsonl.gz
//
// The first argument counts the objects of each kind, the second is the chance of an absent pointer.
// Larger runs, compared in the same way, are how the decoder was checked.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

var kinds = map[string][]string{
	"v1":                              {"Namespace", "Node", "Pod", "Event", "Secret", "ConfigMap", "ServiceAccount", "Service", "DeleteOptions"},
	"admissionregistration.k8s.io/v1": {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"},
	"apps/v1":                         {"Deployment", "DaemonSet"},
	"policy/v1":                       {"PodDisruptionBudget", "Eviction"},
	"coordination.k8s.io/v1":          {"Lease"},
	"events.k8s.io/v1":                {"Event"},
	"rbac.authorization.k8s.io/v1":    {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"},
	"apiextensions.k8s.io/v1":         {"CustomResourceDefinition"},
	"authentication.k8s.io/v1":        {"TokenReview", "TokenRequest", "SelfSubjectReview"},
	"authorization.k8s.io/v1":         {"SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview", "LocalSubjectAccessReview"},
}

func filler(seed int64, chance float64) *randfill.Filler {
	raw := func(c randfill.Continue) []byte {
		return [][]byte{[]byte(`{"f:a":{}}`), []byte(`{"x":[1,"a",null,true,1.5]}`), []byte(`{}`)}[c.Intn(3)]
	}
	return randfill.NewWithSeed(seed).NilChance(chance).NumElements(1, 1).MaxDepth(14).Funcs(
		func(s *string, c randfill.Continue) {
			*s = []string{"", "a", "b-c", "ü", "text"}[c.Intn(5)]
		},
		func(n *int32, c randfill.Continue) { *n = []int32{0, 1, -1, 80, -2147483648, 2147483647}[c.Intn(6)] },
		func(n *int64, c randfill.Continue) {
			*n = []int64{0, 1, -1, 300, -9223372036854775808, 9223372036854775807}[c.Intn(6)]
		},
		func(n *float64, c randfill.Continue) { *n = []float64{0, 1, -2.5, 1e30, 0.1}[c.Intn(5)] },
		func(t *metav1.Time, c randfill.Continue) {
			if c.Bool() {
				*t = metav1.NewTime(time.Unix(int64(c.Intn(2000000000)), 0).UTC())
			}
		},
		func(t *metav1.MicroTime, c randfill.Continue) {
			if c.Bool() {
				*t = metav1.NewMicroTime(time.Unix(int64(c.Intn(2000000000)), int64(c.Intn(1000000))*1000).UTC())
			}
		},
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse([]string{"0", "1", "100m", "2Gi", "1500"}[c.Intn(5)])
			_ = q.String()
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			*v = []intstr.IntOrString{intstr.FromInt32(0), intstr.FromInt32(-5), intstr.FromString("50%"), intstr.FromString("")}[c.Intn(4)]
		},
		// Protobuf cannot tell nil from empty in a map's values.
		func(b *[]byte, c randfill.Continue) { *b = []byte{0, 255} },
		func(e *authenticationv1.ExtraValue, c randfill.Continue) { *e = []string{"a", ""} },
		func(e *authorizationv1.ExtraValue, c randfill.Continue) { *e = []string{"b"} },
		func(f *metav1.FieldsV1, c randfill.Continue) { f.SetRawBytes(raw(c)) },
		func(j *apiextensionsv1.JSON, c randfill.Continue) { j.Raw = raw(c) },
		func(m *metav1.TypeMeta, c randfill.Continue) {},
		func(s *apiextensionsv1.JSONSchemaPropsOrBool, c randfill.Continue) {
			if c.Bool() {
				s.Allows = true
				s.Schema = &apiextensionsv1.JSONSchemaProps{}
				c.Fill(s.Schema)
			} else {
				s.Allows = c.Bool()
			}
		},
		func(s *apiextensionsv1.JSONSchemaPropsOrArray, c randfill.Continue) {
			if c.Bool() {
				s.Schema = &apiextensionsv1.JSONSchemaProps{Type: "a"}
			} else {
				s.JSONSchemas = []apiextensionsv1.JSONSchemaProps{{}, {Type: "b"}}
			}
		},
		func(s *apiextensionsv1.JSONSchemaPropsOrStringArray, c randfill.Continue) {
			if c.Bool() {
				s.Schema = &apiextensionsv1.JSONSchemaProps{Type: "a"}
			} else {
				s.Property = []string{"a", ""}
			}
		},
	)
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, admissionregistrationv1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, coordinationv1.AddToScheme, eventsv1.AddToScheme,
		rbacv1.AddToScheme, apiextensionsv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	count, _ := strconv.Atoi(os.Args[1])
	chance, _ := strconv.ParseFloat(os.Args[2], 64)
	encoder := protobuf.NewSerializer(scheme, scheme)
	for _, apiVersion := range slices.Sorted(maps.Keys(kinds)) {
		for _, kind := range kinds[apiVersion] {
			for i := 0; i < count; i++ {
				gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
				object, err := scheme.New(gvk)
				if err != nil {
					panic(err)
				}
				filler(int64(i), chance).Fill(object)
				object.GetObjectKind().SetGroupVersionKind(gvk)
				var body bytes.Buffer
				if err := encoder.Encode(object, &body); err != nil {
					panic(err)
				}
				line, err := json.Marshal(map[string]any{"kind": apiVersion + "/" + kind, "protobuf": body.Bytes(), "json": object})
				if err != nil {
					panic(err)
				}
				fmt.Println(string(line))
			}
		}
	}
}
