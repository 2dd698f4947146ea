{{ config(materialized='incremental', incremental_strategy='merge', unique_key='carrier') }}
select carrier, count(*) as flights, max(id) as newest
from {{ ref('flights') }}
{% if is_incremental() %}
where carrier in (select carrier from {{ ref('flights') }} where id > (select max(newest) from {{ this }}))
{% endif %}
group by carrier
