{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by=['month']) }}
select count(*) as flights, avg(delay) as delay, month
from {{ ref('flights') }}
{% if is_incremental() %}
where month >= (select max(month) from {{ this }})
{% endif %}
group by month
