{{ config(materialized='table') }}
select id, month, carrier, cast(delay as double) as delay
from lake.raw.flights
