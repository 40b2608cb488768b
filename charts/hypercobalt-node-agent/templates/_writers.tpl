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
variables.fieldSets.map(fields, fields.map(n0, size(n0) + 6 + fields[n0].map(n1, size(n1) + 6 + fields[n0][n1].map(n2, size(n2) + 6 + fields[n0][n1][n2].map(n3, size(n3) + 6 + fields[n0][n1][n2][n3].map(n4, size(n4) + 6 + fields[n0][n1][n2][n3][n4].map(n5, size(n5) + 6 + (size(fields[n0][n1][n2][n3][n4][n5]) == 0 ? 0 : 16384)).sum()).sum()).sum()).sum()).sum()).sum()).sum()
{{- end }}

{{- define "writers.mostOwned" -}}
16384
{{- end }}
