{{- /* Generated from src/hypercobalt/api/ by scripts/generate; do not edit. */}}

{{- define "writers.fields" -}}
["ovsVersion", "ovsdVersion", "dpdkEnabled", "dpdkVersion", "bridges", "interfaces", "ovnController", "flowStats", "metrics", "issues", "issuesTotal", "lastProbeTime", "diagnostics"]
{{- end }}

{{- define "writers.types" -}}
["Ready", "OVSDBConnected", "VswitchdResponding", "OVNControllerConnected", "AllBridgesHealthy", "AllBondsHealthy", "PortsHealthy", "FlowsInSync"]
{{- end }}
