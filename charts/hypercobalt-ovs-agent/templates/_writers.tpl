{{- /* Generated from src/hypercobalt/api/ by scripts/generate; do not edit. */}}

{{- define "writers.fields" -}}
["ovsVersion", "ovsdVersion", "dpdkEnabled", "dpdkVersion", "bridges", "interfaces", "ovnController", "flowStats", "metrics", "issues", "issuesTotal", "lastProbeTime", "diagnostics"]
{{- end }}

{{- define "writers.types" -}}
["Ready", "OVSDBConnected", "VswitchdResponding", "OVNControllerConnected", "AllBridgesHealthy", "AllBondsHealthy", "PortsHealthy", "FlowsInSync"]
{{- end }}

{{- define "writers.message" -}}
2048
{{- end }}

{{- define "writers.reason" -}}
128
{{- end }}

{{- define "writers.owned" -}}
size(variables.fieldSets.map(fields, fields.map(n0, n0 + "......" + fields[n0].map(n1, n1 + "......" + fields[n0][n1].map(n2, n2 + "......" + fields[n0][n1][n2].map(n3, n3 + "......" + fields[n0][n1][n2][n3].map(n4, n4 + "......" + fields[n0][n1][n2][n3][n4].map(n5, n5 + "......").join()).join()).join()).join()).join()).join()).join()) + (variables.fieldSets.exists(fields, fields.exists(n0, fields[n0].exists(n1, fields[n0][n1].exists(n2, fields[n0][n1][n2].exists(n3, fields[n0][n1][n2][n3].exists(n4, fields[n0][n1][n2][n3][n4].exists(n5, size(fields[n0][n1][n2][n3][n4][n5]) > 0))))))) ? 16384 : 0)
{{- end }}

{{- define "writers.mostOwned" -}}
16384
{{- end }}
