{{- define "agent.fullname" -}}
{{ .Values.fullnameOverride | default (printf "%s-%s" .Release.Name .Chart.Name) | trunc 45 }}
{{- end }}

{{- define "agent.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "agent.labels" -}}
{{ include "agent.selectorLabels" . }}
app.kubernetes.io/component: ovs-agent
app.kubernetes.io/version: {{ quote .Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "agent.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "agent.fullname" .) }}
{{- end }}
