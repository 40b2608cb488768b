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
variables.fieldSets.map(fields, fields.map(n0, size(n0) + 6 + fields[n0].map(n1, size(n1) + 6 + fields[n0][n1].map(n2, size(n2) + 6 + fields[n0][n1][n2].map(n3, size(n3) + 6 + fields[n0][n1][n2][n3].map(n4, size(n4) + 6 + fields[n0][n1][n2][n3][n4].map(n5, size(n5) + 6 + (size(fields[n0][n1][n2][n3][n4][n5]) == 0 ? 0 : 16384)).sum()).sum()).sum()).sum()).sum()).sum()).sum()
{{- end }}

{{- define "writers.mostOwned" -}}
16384
{{- end }}
