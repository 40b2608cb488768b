{{- define "operator.fullname" -}}
{{ .Values.fullnameOverride | default (printf "%s-%s" .Release.Name .Chart.Name) | trunc 45 }}
{{- end }}

{{- define "operator.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
control-plane: controller-manager
{{- end }}

{{- define "operator.labels" -}}
{{ include "operator.selectorLabels" . }}
app.kubernetes.io/component: hypervisor-operator
app.kubernetes.io/version: {{ quote .Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "operator.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (printf "%s-controller-manager" (include "operator.fullname" .)) }}
{{- end }}

{{- define "operator.secret" -}}
{{ .Values.secret.existingSecret | default (printf "%s-secret" (include "operator.fullname" .)) }}
{{- end }}

{{- define "operator.definitionsKey" -}}
{{ printf "%s-definitions-key" (include "operator.fullname" .) }}
{{- end }}

{{- /* Binds a Role to the operator: a list of the context, the role's short name and its namespace. */}}
{{- define "operator.rolebinding" -}}
{{- $context := index . 0 -}}
{{- $role := printf "%s-%s" (include "operator.fullname" $context) (index . 1) -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $role }}-rolebinding
  namespace: {{ index . 2 }}
  labels:
    {{- include "operator.labels" $context | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $role }}-role
subjects:
- kind: ServiceAccount
  name: {{ include "operator.serviceAccount" $context }}
  namespace: {{ $context.Release.Namespace }}
{{- end }}
