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
