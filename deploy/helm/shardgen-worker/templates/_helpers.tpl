{{- define "shardgen.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* More than half of the members that there may be. */ -}}
{{- define "shardgen.minMembers" -}}
{{- $least := .Values.replicas -}}
{{- $most := .Values.replicas -}}
{{- with .Values.autoscaling -}}
{{- $least = .minReplicas -}}
{{- $most = .maxReplicas -}}
{{- end -}}
{{- if gt (int $least) (int $most) -}}
{{- fail (printf "autoscaling.minReplicas %v is above maxReplicas %v" $least $most) -}}
{{- end -}}
{{- $min := default (add1 (div (int $most) 2)) .Values.minMembers -}}
{{- if gt (int $min) (int $least) -}}
{{- fail (printf "minMembers is %v (by default half of the members and one more), but there may be only %v members, which would wait for ever: start more, or set minMembers" $min $least) -}}
{{- end -}}
{{- $min -}}
{{- end }}

{{- /* Nine tenths of the limit of memory in bytes, or nothing without a limit. */ -}}
{{- define "shardgen.goMemLimit" -}}
{{- with dig "limits" "memory" "" .Values.resources -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $text := . | toString -}}
{{- $unit := regexFind "[A-Za-z]*$" $text -}}
{{- if not (hasKey $units $unit) -}}
{{- fail (printf "resources.limits.memory %s: want a number with one of Ki, Mi, Gi, Ti, k, M, G, T or without a unit" $text) -}}
{{- end -}}
{{- mulf (trimSuffix $unit $text | float64) (get $units $unit) 0.9 | floor | int64 -}}
{{- end -}}
{{- end }}
