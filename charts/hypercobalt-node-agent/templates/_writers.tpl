{{- /* Generated from src/hypercobalt/api/ by scripts/generate; do not edit. */}}

{{- define "writers.fields" -}}
["libVirtVersion", "hypervisorVersion", "operatingSystem", "updateStatus", "hostUUID", "bootID", "bootedAt", "recentBoots", "instances", "instancePorts", "numInstances", "incidents", "peerReports", "diagnostics", "guestsStopped", "capabilities", "domainCapabilities", "allocation", "capacity", "effectiveCapacity", "cells"]
{{- end }}

{{- define "writers.types" -}}
["LibVirtConnection", "HaConfigValid", "AutostartOff", "OperatingSystemUpdate", "TLSCertificateInstalled", "DefinitionsStored", "OperatorReporting"]
{{- end }}

{{- define "writers.unit" -}}
"^[A-Za-z0-9][-A-Za-z0-9_.]*[.](service|socket|target|mount|automount|swap|timer|path|slice|scope|device)$"
{{- end }}

{{- define "writers.units" -}}
32
{{- end }}

{{- define "writers.message" -}}
2048
{{- end }}

{{- define "writers.reason" -}}
128
{{- end }}

{{- define "writers.key" -}}
63
{{- end }}

{{- define "writers.migration" -}}
["origin", "destination", "type", "operation", "started", "errMsg", "timeElapsed", "timeRemaining", "downtime", "setupTime", "dataTotal", "dataProcessed", "dataRemaining", "memTotal", "memProcessed", "memRemaining", "memConstant", "memNormal", "memNormalBytes", "memBps", "memDirtyRate", "memIteration", "memPostcopyRequests", "memPageSize", "diskTotal", "diskProcessed", "diskRemaining", "diskBps", "autoConvergeThrottle"]
{{- end }}

{{- define "writers.owned" -}}
size(variables.fieldSets.map(fields, fields.map(n0, n0 + "......" + fields[n0].map(n1, n1 + "......" + fields[n0][n1].map(n2, n2 + "......" + fields[n0][n1][n2].map(n3, n3 + "......" + fields[n0][n1][n2][n3].map(n4, n4 + "......" + fields[n0][n1][n2][n3][n4].map(n5, n5 + "......").join()).join()).join()).join()).join()).join()).join()) + (variables.fieldSets.exists(fields, fields.exists(n0, fields[n0].exists(n1, fields[n0][n1].exists(n2, fields[n0][n1][n2].exists(n3, fields[n0][n1][n2][n3].exists(n4, fields[n0][n1][n2][n3][n4].exists(n5, size(fields[n0][n1][n2][n3][n4][n5]) > 0))))))) ? 16384 : 0)
{{- end }}

{{- define "writers.mostOwned" -}}
16384
{{- end }}
