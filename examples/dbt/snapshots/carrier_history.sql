{% snapshot carrier_history %}
{{ config(target_schema='air', unique_key='carrier', strategy='check', check_cols=['flights']) }}
select carrier, flights from {{ ref('carriers') }}
{% endsnapshot %}
