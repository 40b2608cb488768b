// Renders a chart as Helm does, for templates that keep to the functions below.
//
// render CHART RELEASE NAMESPACE < VALUES: the values are JSON, whole. The output is one YAML stream:
// what toYaml writes is mostly JSON, which is YAML too.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"text/template"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(chart, release, namespace string) error {
	var given struct{ Values, Chart map[string]any }
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		return err
	}
	context := map[string]any{
		"Values":  given.Values,
		"Chart":   given.Chart,
		"Release": map[string]any{"Name": release, "Namespace": namespace, "Service": "Helm"},
	}
	all := template.New("chart")
	all.Option("missingkey=zero").Funcs(functions(all))
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := all.New(filepath.Base(file)).Parse(string(text)); err != nil {
			return err
		}
	}
	for _, file := range files {
		if filepath.Ext(file) != ".yaml" {
			continue
		}
		fmt.Println("\n---")
		if err := all.ExecuteTemplate(os.Stdout, filepath.Base(file), context); err != nil {
			return err
		}
	}
	return nil
}

func empty(value any) bool {
	return value == nil || reflect.ValueOf(value).IsZero()
}

func functions(all *template.Template) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, context any) (string, error) {
			var out strings.Builder
			err := all.ExecuteTemplate(&out, name, context)
			return out.String(), err
		},
		"toYaml": toYaml,
		"nindent": func(width int, text string) string {
			pad := strings.Repeat(" ", width)
			return "\n" + pad + strings.ReplaceAll(text, "\n", "\n"+pad)
		},
		"quote": func(value any) string {
			if value == nil {
				return ""
			}
			return fmt.Sprintf("%q", fmt.Sprint(value))
		},
		"default": func(otherwise, value any) any {
			if empty(value) {
				return otherwise
			}
			return value
		},
		"required": func(why string, value any) (any, error) {
			if value == nil || value == "" {
				return nil, fmt.Errorf("%s", why)
			}
			return value, nil
		},
		"replace": func(old, new, text string) string { return strings.ReplaceAll(text, old, new) },
		"trunc": func(length int, text string) string {
			return text[:min(length, len(text))]
		},
		"sha256sum": func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) },
		"lower":     strings.ToLower,
		"list":      func(items ...any) []any { return items },
		"nospace":   func(text string) string { return strings.Join(strings.Fields(text), "") },
		"splitList": func(mark, text string) []string { return strings.Split(text, mark) },
		"compact":   func(items []string) []string { return unique(items, true) },
		"uniq":      func(items []string) []string { return unique(items, false) },
	}
}

// toYaml writes a list or a map line by line, so that it can follow others; what is in it is JSON.
func toYaml(value any) (string, error) {
	var lines []string
	var wrong error
	line := func(prefix string, item any) {
		text, err := json.Marshal(item)
		wrong = errors.Join(wrong, err)
		lines = append(lines, prefix+string(text))
	}
	switch whole := value.(type) {
	case []any:
		for _, item := range whole {
			line("- ", item)
		}
	case map[string]any:
		for key, item := range whole {
			line(fmt.Sprintf("%q: ", key), item)
		}
	default:
		line("", whole)
	}
	return strings.Join(lines, "\n"), wrong
}

func unique(items []string, full bool) []string {
	var found []string
	seen := map[string]bool{}
	for _, item := range items {
		if (full && item == "") || (!full && seen[item]) {
			continue
		}
		seen[item] = true
		found = append(found, item)
	}
	return found
}
